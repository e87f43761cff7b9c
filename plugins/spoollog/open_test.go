package spoollog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

const (
	hugeSegments = 3125 // of 32 MiB each: 100 GB
	hugeSegment  = 32 << 20
)

// huge makes a directory with 100 GB of closed segments, which take no space, and one full segment
// that nobody closed.
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
	// The segment that is open has the offsets from 0 on, so the closed ones are of a log with
	// the same name behind it: they are not read.
	for i := range hugeSegments {
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

// BenchmarkOpen opens a log of 100 GB, the last segment of which has to be read to find its end.
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

// Opening takes no more memory for a log of 100 GB than its names and what is read at once.
func TestOpensHugeLog(t *testing.T) {
	dir := huge(t)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l, err := spoollog.Open(dir, spoollog.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	t.Logf("opened 100 GB in %d ns, with %d bytes allocated", result.NsPerOp(), result.AllocedBytesPerOp())
	if got := result.AllocedBytesPerOp(); got > 8<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
}
