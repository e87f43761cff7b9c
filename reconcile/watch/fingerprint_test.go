package watch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

func TestPrint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	current := func() fingerprint.Print {
		t.Helper()
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint.Of(fi)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	long := time.Now().Add(-time.Hour)
	set := func() {
		t.Helper()
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	set()
	first := current()
	if again := current(); again != first {
		t.Errorf("nothing changed, but the print: %+v, %+v", first, again)
	}
	changes := map[string]func(){
		"another size":  func() { write("three"); set() },
		"another mode":  func() { _ = os.Chmod(path, 0o700) },
		"another inode": func() { _ = os.Rename(path, path+".old"); write("one"); set() },
		// the ctime cannot be set
		"times set back after a change of the same size": func() { nextTick(t, path); write("two"); set() },
	}
	for name, change := range changes {
		before := current()
		change()
		if current() == before {
			t.Errorf("%s: the print is the same", name)
		}
	}
	now := time.Now()
	if p := current(); p.Certain(now) || !p.Certain(now.Add(time.Minute)) {
		t.Errorf("%+v is certain now: %v, and in a minute: %v", p, p.Certain(now), p.Certain(now.Add(time.Minute)))
	}
	write("now")
	if p := current(); p.Quiet(time.Now(), time.Minute) || !p.Quiet(time.Now().Add(2*time.Minute), time.Minute) ||
		!p.Quiet(time.Unix(0, 0), time.Minute) {
		t.Errorf("quiet is wrong for %+v", p)
	}
}

// nextTick waits until the clock of the file system has advanced since path was changed.
func nextTick(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := fingerprint.Of(info).Ctime
	for other := path + ".clock"; ; {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err = os.Stat(other); err != nil {
			t.Fatal(err)
		}
		if info.ModTime().UnixNano() > changed {
			return
		}
	}
}
