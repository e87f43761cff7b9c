package file_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// forbid opens a source that may not open files with this name while the switch is on.
func forbid(t *testing.T, path, name string, pos record.Position) (*source, *atomic.Bool) {
	t.Helper()
	var on atomic.Bool
	on.Store(true)
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), AllowPath: func(path string) error {
		if on.Load() && filepath.Base(path) == name {
			return errors.New("permission denied")
		}
		return nil
	}})
	s := &source{file.Connector(zstd.Codec{}).NewSource(), t}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	if err := errors.Join(s.Configure(ctx, map[string]string{"path": path}), s.Open(ctx, pos)); err != nil {
		t.Fatal(err)
	}
	return s, &on
}

// skipped describes the data that the source left out.
func (s *source) skipped() (all []string) {
	for _, one := range s.Source.(sdk.Reporter).Progress().Skipped {
		all = append(all, one.Of+": "+one.Error)
	}
	slices.Sort(all)
	return all
}

// An unreadable file among several does not block the others, and is reported.
func TestOneBadFileAmongSeveral(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		make func(path string) error
		want string // part of the description; empty: the file is not read
	}{
		"pipe":           {"b.log", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "it is a pipe"},
		"dangling link":  {"b.log", func(path string) error { return os.Symlink("nowhere", path) }, "no such file"},
		"link to itself": {"b.log", func(path string) error { return os.Symlink("b.log", path) }, "too many levels"},
		"device":         {"b.log", func(path string) error { return os.Symlink("/dev/zero", path) }, "it is a device"},
		"directory":      {"b.log", func(path string) error { return os.Mkdir(path, 0o700) }, ""},
		"socket": {"b.log", func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, "not a regular file"},
		"damaged gzip": {"b.log.gz", func(path string) error {
			return os.WriteFile(path, []byte("no gzip at all, and longer than a header"), 0o600)
		}, "invalid header"},
		"damaged zstd": {"b.log.zst", func(path string) error {
			return os.WriteFile(path, []byte("no zstd at all"), 0o600)
		}, "magic"},
		"an over-long line": {"b.log", func(path string) error {
			return os.WriteFile(path, append(make([]byte, 1), strings.Repeat("x", 17<<20)+"\n"...), 0o600)
		}, "longer than 16 MiB"},
	} {
		runVirtual(t, name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.log"), "a\n")
			write(t, filepath.Join(dir, "c.log"), "c\n")
			bad := filepath.Join(dir, c.file)
			if err := c.make(bad); err != nil {
				t.Fatal(err)
			}
			s := open(t, filepath.Join(dir, "*"), nil)
			s.unordered("a", "c")
			write(t, filepath.Join(dir, "a.log"), "a2\n")
			s.want("a2")
			deadline := time.Now().Add(wait.Limit)
			for c.want != "" && len(s.skipped()) == 0 && time.Now().Before(deadline) {
				if more := s.some(); len(more) > 0 {
					t.Errorf("got %q", texts(more))
				}
			}
			s.wantNothing()
			all := s.skipped()
			if c.want == "" {
				if len(all) > 0 {
					t.Errorf("left out: %q", all)
				}
			} else if len(all) != 1 || !strings.Contains(all[0], bad) || !strings.Contains(all[0], c.want) {
				t.Errorf("left out: %q, want %s: %s", all, bad, c.want)
			}
		})
	}
}

// A file without read permission is read once permission is granted. Reading resumes from the last position, also after
// a restart.
func TestUnreadableFileIsTriedAgain(t *testing.T) { synctest.Test(t, testUnreadableFileIsTriedAgain) }

func testUnreadableFileIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	write(t, a, "a1\n")
	write(t, b, "b1\nb2\n")
	s, on := forbid(t, dir, "b.log", nil)
	s.want("a1")
	if all := s.skipped(); len(all) != 1 || !strings.HasPrefix(all[0], b+": ") {
		t.Fatalf("left out: %q", all)
	}
	on.Store(false)
	pos := s.want("b1", "b2")[1].Position
	if all := s.skipped(); len(all) > 0 {
		t.Errorf("left out: %q", all)
	}
	s, _ = forbid(t, dir, "b.log", pos)
	write(t, b, "b3\n")
	write(t, a, "a2\n")
	pos = s.want("a2")[0].Position
	s, on = forbid(t, dir, "b.log", pos)
	s.wantNothing()
	on.Store(false)
	s.want("b3")
}

// A directory that cannot be listed is reported: nothing in it can match.
func TestUnreadableDirectory(t *testing.T) { synctest.Test(t, testUnreadableDirectory) }

func testUnreadableDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		// Root may list every directory, but not a link to itself.
		dir := t.TempDir()
		if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
			t.Fatal(err)
		}
		s := open(t, filepath.Join(dir, "loop", "*.log"), nil)
		s.wantNothing()
		if all := s.skipped(); len(all) != 1 || !strings.Contains(all[0], "too many levels") {
			t.Errorf("left out: %q", all)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0o100); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "*.log"), nil)
	s.wantNothing()
	if all := s.skipped(); len(all) != 1 || !strings.Contains(all[0], "permission denied") {
		t.Errorf("left out: %q", all)
	}
}

// A compressed file that is damaged in the middle is read up to the damage, and to the end after it was repaired.
func TestDamagedInTheMiddle(t *testing.T) { synctest.Test(t, testDamagedInTheMiddle) }

func testDamagedInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	packed, other := filepath.Join(dir, "p.log.gz"), filepath.Join(dir, "other.log")
	pack(t, packed, strings.Repeat("line\n", 100_000))
	whole, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 0xff // part of the checksum
	if err := os.WriteFile(packed, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, nil)
	write(t, other, "other\n")
	lines, seen := 0, false
	deadline := time.Now().Add(wait.Limit)
	for lines < 99_900 || !seen {
		if time.Now().After(deadline) {
			t.Fatalf("got %d lines, the other file %v", lines, seen)
		}
		for _, line := range texts(s.some()) {
			if seen = seen || line == "other"; line == "line" {
				lines++
			}
		}
	}
	for len(s.skipped()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing is said of the damage")
		}
		lines += len(s.some())
	}
	if err := os.WriteFile(packed, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for len(s.skipped()) > 0 || lines < 100_000 {
		if time.Now().After(deadline) {
			t.Fatalf("got %d lines, left out %q", lines, s.skipped())
		}
		lines += len(s.some())
	}
	if lines != 100_000 {
		t.Errorf("got %d lines", lines)
	}
}

// some returns the next records, or nothing if none arrive within 50 ms.
func (s *source) some() []record.Record {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Millisecond)
	defer cancel()
	records, err := s.Read(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatal(err)
	}
	return records
}
