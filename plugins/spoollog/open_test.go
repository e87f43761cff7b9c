package spoollog_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// hugeSegments is the number of segments of a huge log; 3125 are 100 GB.
var hugeSegments = flag.Int("segments", 400, "segments of a huge log")

const hugeSegment = 32 << 20

// huge makes a directory with many closed segments, which take no space, and one full segment that is not closed.
func huge(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := spoollog.Open(dir, spoollog.Options{SegmentBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	body := []record.Record{{After: record.Raw(make([]byte, 60_000))}}
	for range hugeSegment / 60_000 {
		frames, _, _ := spoollog.Encode(body)
		if _, err := l.Writer().Append(t.Context(), frames); err != nil {
			t.Fatal(err)
		}
		if l.Pending() > 4<<20 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil || len(open) != 1 {
		t.Fatalf("%v %v", open, err)
	}
	text, err := os.ReadFile(open[0])
	if err != nil {
		t.Fatal(err)
	}
	// The open segment has the offsets from 0 on. The closed segments have the same log name and higher offsets, and
	// are not read.
	for i := range *hugeSegments {
		first := uint64(1)<<40 + uint64(i)*1000
		path := filepath.Join(dir, fmt.Sprintf("%016x-%016x-%016x.spool", l.ID(), first, first+1000))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, hugeSegment); err != nil {
			t.Fatal(err)
		}
	}
	if len(text) < hugeSegment*9/10 {
		t.Fatalf("the open segment has %d bytes", len(text))
	}
	return dir
}

// BenchmarkOpen opens a huge log whose last segment must be read to find its end.
func BenchmarkOpen(b *testing.B) {
	dir := huge(b)
	files, err := filepath.Glob(filepath.Join(dir, "*-0000000000000000*.spool"))
	if err != nil || len(files) != 1 {
		b.Fatalf("%v %v", files, err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		l, err := spoollog.Open(dir, spoollog.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		sealed, _ := filepath.Glob(filepath.Join(dir, "*-0000000000000000-*.spool"))
		if len(sealed) != 1 {
			b.Fatal("the open segment was not read")
		}
		if err := os.Rename(sealed[0], files[0]); err != nil { // as a kill leaves it
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// TestOpensHugeLog checks that opening a huge log takes less memory than one segment: the file names and the read
// buffer.
func TestOpensHugeLog(t *testing.T) {
	dir := huge(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := spoollog.Open(dir, spoollog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > hugeSegment/2 {
		t.Errorf("%d bytes were allocated", got)
	}
}

// Other users lose access to the files of the log, and the log warns about that. Other files keep their modes.
func TestWideModesAreTightened(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	opened := func() *spoollog.Log {
		t.Helper()
		l, err := spoollog.Open(dir, spoollog.Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := opened()
	if _, err := l.Reader("in"); err != nil {
		t.Fatal(err)
	}
	frames, _, _ := spoollog.Encode([]record.Record{{After: record.Raw([]byte("x"))}})
	if _, err := l.Writer().Append(t.Context(), frames); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Flush(t.Context()), l.Close(),
		os.WriteFile(filepath.Join(dir, "other"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Errorf("a new spool is warned of: %s", &said)
	}
	modes := map[string]os.FileMode{}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("it has %v, %v", entries, err)
	}
	for _, e := range entries {
		modes[e.Name()] = 0o640
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o646); err != nil {
			t.Fatal(err)
		}
	}
	modes["other"] = 0o646
	l = opened()
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v; %v", name, info.Mode(), want, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := said.String(); strings.Count(got, "others could open a file of the spool") != 2 ||
		!strings.Contains(got, "mode=-rw-r--rw-") {
		t.Errorf("the log says %s", got)
	}
}
