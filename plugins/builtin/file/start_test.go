package file_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// stateful opens a source with a directory for its state.
func stateful(t *testing.T, state, path string, pos record.Position, settings ...string) *source {
	t.Helper()
	s := &source{file.Connector(zstd.Codec{}).NewSource(), t}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), StateDir: state})
	if err := s.Configure(ctx, settingsOf(path, settings)); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, pos); err != nil {
		t.Fatal(err)
	}
	return s
}

var atEnd = []string{"start", "end"}

// TestStartAtEnd starts at the ends of files, again before any record was read, and after that.
func TestStartAtEnd(t *testing.T) {
	for name, pattern := range map[string]string{"one": "a.log", "several": "*.log", "recursive": "**/*.log"} {
		runVirtual(t, name, func(t *testing.T) {
			dir, state := makeFiles(t, "a.log"), filepath.Join(t.TempDir(), "state")
			a := filepath.Join(dir, "a.log")
			write(t, a, strings.Repeat("old\n", 50_000)+"half")
			stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...).wantNothing()
			write(t, a, " whole\nnext\n") // while the source is closed, and there is no position
			var pos record.Position
			for _, want := range []string{"half whole", "next"} { // the first one is read twice, as after a kill
				records := stateful(t, state, filepath.Join(dir, pattern), pos, atEnd...)
				got, err := records.Read(t.Context())
				if err != nil || texts(got)[0] != want {
					t.Fatalf("got %q, %v, want %q", texts(got), err, want)
				}
				pos = got[0].Position
			}
			s := stateful(t, state, filepath.Join(dir, pattern), pos, atEnd...)
			s.wantNothing()
			write(t, a, "more\n")
			s.want("more")
			stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...).want("half whole", "next", "more") // reset
		})
	}
}

// Files that appear later are read from their beginning, also while the source is closed and after a change of the
// path.
func TestStartAtEndOfLaterFiles(t *testing.T) { synctest.Test(t, testStartAtEndOfLaterFiles) }

func testStartAtEndOfLaterFiles(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	at := func(name string) string { return filepath.Join(dir, name) }
	stateful(t, state, at("*.log"), nil, atEnd...).wantNothing()
	write(t, at("a.log"), "a1\n")
	s := stateful(t, state, at("*.log"), nil, atEnd...)
	s.want("a1")
	write(t, at("b.log"), "b1\n")
	write(t, at("c.txt"), "c1\n")
	records := s.want("b1")
	stateful(t, state, at("*"), records[0].Position, atEnd...).want("c1")
	one, state := at("one.log"), filepath.Join(t.TempDir(), "state")
	stateful(t, state, one, nil, atEnd...).wantNothing()
	write(t, one, "1\n")
	stateful(t, state, one, nil, atEnd...).want("1")
}

// TestStartAtEndAndRotate rotates a file that was never read.
func TestStartAtEndAndRotate(t *testing.T) {
	for name, pattern := range map[string]string{"one": "app.log", "several": "*.log"} {
		for _, stopped := range []bool{false, true} {
			runVirtual(t, fmt.Sprint(name, stopped), func(t *testing.T) {
				dir, state := makeFiles(t, "app.log", "app.log.1"), filepath.Join(t.TempDir(), "state")
				path := filepath.Join(dir, "app.log")
				s := stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...)
				s.wantNothing()
				if stopped {
					_ = s.Teardown(t.Context())
				}
				write(t, path, "before\n")
				rename(t, path, path+".2")
				write(t, path, "after\n")
				if stopped {
					s = stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...)
				}
				s.want("before", "after")
			})
		}
	}
}

// Without a directory for state, every start without a position is a first one.
func TestStartAtEndWithoutState(t *testing.T) { synctest.Test(t, testStartAtEndWithoutState) }

func testStartAtEndWithoutState(t *testing.T) {
	path := newPath(t)
	write(t, path, "old\n")
	open(t, path, nil, atEnd...).wantNothing()
	write(t, path, "old, too\n")
	s := open(t, path, nil, atEnd...)
	s.wantNothing()
	write(t, path, "new\n")
	s.want("new")
}

// Lines that are too long are not cut by the start.
func TestStartInALongLine(t *testing.T) { synctest.Test(t, testStartInALongLine) }

func testStartInALongLine(t *testing.T) {
	path := newPath(t)
	write(t, path, "short\n"+strings.Repeat("x", 17<<20))
	s := open(t, path, nil, atEnd...)
	s.wantNothing()
	write(t, path, "x\nnext\n")
	s.want("next")
	if skipped := s.Source.(*file.Source).Progress().Skipped; len(skipped) != 1 {
		t.Errorf("skipped %v", skipped)
	}
}

// A compressed file that is there at the start is left out as a whole.
func TestStartBehindCompressedFiles(t *testing.T) {
	for _, pattern := range []string{"a.log.gz", "*.gz"} {
		runVirtual(t, pattern, func(t *testing.T) {
			dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, "a.log.gz")
			pack(t, path, "old\n")
			stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...).wantNothing()
			pack(t, path, "old, too\n")
			age(t, path, time.Minute)
			s := stateful(t, state, filepath.Join(dir, pattern), nil, atEnd...)
			s.wantNothing()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			pack(t, path, "new\n")
			age(t, path, -time.Minute)
			s.want("new")
		})
	}
}

// TestManyFiles reads more files than may be open and than fit into a position, with restarts.
func TestManyFiles(t *testing.T) { synctest.Test(t, testManyFiles) }

func testManyFiles(t *testing.T) {
	defer file.LedgerKeep(10_000)()
	const files = 300
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	name := func(i int) string { return fmt.Sprintf("%s-%03d.log", strings.Repeat("n", 100), i) }
	var want []string
	round := func(n int) {
		want = nil
		for i := range files {
			line := fmt.Sprintf("%d of %d", n, i)
			want = append(want, line)
			write(t, filepath.Join(dir, fmt.Sprint(i%7), name(i)), line+"\n")
		}
		slices.Sort(want)
	}
	for i := range 7 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var pos record.Position
	read := func(s *source) {
		var got []string
		for len(got) < files {
			records, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, texts(records)...)
			var positions []record.Position
			for _, r := range records {
				positions = append(positions, r.Position)
			}
			if err := s.Ack(t.Context(), positions); err != nil {
				t.Fatal(err)
			}
			if pos = records[len(records)-1].Position; len(pos) > 400 {
				t.Fatalf("a position has %d bytes", len(pos))
			}
			if n := file.OpenFiles(s.Source); n > 10 {
				t.Fatalf("%d files are open", n)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %d lines that differ from %d", len(got), len(want))
		}
		s.wantNothing()
	}
	settings := []string{"openFiles", "10"}
	round(0)
	for n := range 3 { // each run reads two rounds
		s := stateful(t, state, filepath.Join(dir, "**", "*.log"), pos, settings...)
		if s.Source.(*file.Source).IgnoresAcks() {
			t.Fatal("it ignores acknowledgements")
		}
		read(s)
		round(2*n + 1)
		read(s)
		for i := range 50 { // rotated while they rest
			path := filepath.Join(dir, fmt.Sprint(i%7), name(i))
			rename(t, path, path+"."+fmt.Sprint(n+1))
		}
		_ = s.Teardown(t.Context())
		round(2*n + 2)
	}
	// A torn end of the ledger loses nothing.
	write(t, filepath.Join(state, "places"), "torn=1;2")
	read(stateful(t, state, filepath.Join(dir, "**", "*.log"), pos, settings...))
	// Without the ledger the others are read again.
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	records, err := stateful(t, state, filepath.Join(dir, "**", "*.log"), pos, settings...).Read(t.Context())
	if err != nil || len(records) == 0 {
		t.Errorf("got %d records, %v", len(records), err)
	}
}

// TestPartialLinesDoNotHoldDescriptors has more files with incomplete lines than may be open.
func TestPartialLinesDoNotHoldDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var want, halves []string
		for i := range 20 {
			write(t, filepath.Join(dir, fmt.Sprintf("%02d.log", i)), fmt.Sprintf("%02d\nhalf %02d", i, i))
			want, halves = append(want, fmt.Sprintf("%02d", i)), append(halves, fmt.Sprintf("half %02d", i))
		}
		s := open(t, dir, nil, "openFiles", "3")
		s.unordered(want...)
		s.wantNothing()
		s.Source.(*file.Source).Finish()
		s.unordered(halves...)
		for range 30 {
			s.wantNothing()
		}
		if r := s.Source.(*file.Source).Progress(); *r.Bytes != 0 {
			t.Errorf("%d bytes are left", *r.Bytes)
		}
	})
}
