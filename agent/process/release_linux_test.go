package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const someMappings = `00400000-00403000 r--p 00000000 fe:00 77                                 /usr/bin/conduit
Size:                 12 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
00403000-00e46000 r-xp 00003000 fe:00 77                                 /usr/bin/conduit
Size:              10508 kB
Private_Clean:      1000 kB
Anonymous:             0 kB
01929000-0192c000 r--p 01529000 fe:00 77                                 /usr/bin/conduit
Anonymous:             4 kB
0192c000-019b6000 rw-p 0152c000 fe:00 77                                 /usr/bin/conduit
Anonymous:             0 kB
019b6000-039fe000 r--p 00000000 00:00 0
Anonymous:             0 kB
7f6dbc000000-7f6dbc021000 r-xp 00000000 fe:00 78                         /usr/lib/libc.so.6
Anonymous:             0 kB
`

func TestOnlyWhatIsAsInTheFileIsHandedBack(t *testing.T) {
	got := pristine(someMappings, "/usr/bin/conduit")
	want := []mapping{{0x400000, 0x403000}, {0x403000, 0xe46000}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestReleaseHandsBackTheExecutable(t *testing.T) {
	before := residentOfFiles(t)
	if err := ReleaseMemory(); err != nil {
		t.Fatal(err)
	}
	if after := residentOfFiles(t); after >= before {
		t.Errorf("%d KiB of files are in memory, as many as before (%d)", after, before)
	}
}

// residentOfFiles returns the resident memory mapped from files, in KiB.
func residentOfFiles(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("cannot read %.20q: %v", rest, err)
	}
	return kib
}
