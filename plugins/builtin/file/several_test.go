package file_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// pack writes a file compressed according to its extension.
func pack(t testing.TB, path, text string) {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if strings.HasSuffix(path, ".zst") {
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.String())
}

// unordered reads one record per line and compares them in any order.
func (s *source) unordered(lines ...string) []record.Record {
	s.t.Helper()
	records := s.read(len(lines))
	got := texts(records)
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		s.t.Fatalf("got %q, want %q", got, lines)
	}
	return records
}

// TestSeveralFiles stops and resumes after every record, and checks that each line occurs once, with the lines of each
// file in order.
func TestSeveralFiles(t *testing.T) {
	for name, pattern := range map[string]string{"directory": "", "pattern": "*.log"} {
		runVirtual(t, name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range []string{"a.log", "b.log", "c d=e.log"} {
				for i := range 20 {
					write(t, filepath.Join(dir, f), fmt.Sprintf("%s %02d\n", f, i))
				}
			}
			pack(t, filepath.Join(dir, "p.log.gz"), "")
			write(t, filepath.Join(dir, ".hidden.log"), "no\n")
			last := map[string]string{}
			var pos record.Position
			seen := 0
			for seen < 60 {
				s := open(t, filepath.Join(dir, pattern), pos)
				records, err := s.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				line := texts(records[:1])[0]
				path := records[0].Metadata.Get("file.path")
				if line <= last[path] || !strings.HasPrefix(line, filepath.Base(path)) {
					t.Fatalf("%q of %s follows %q", line, path, last[path])
				}
				last[path], pos = line, records[0].Position
				seen++
			}
			open(t, filepath.Join(dir, pattern), pos).wantNothing()
		})
	}
}

func TestFilesComeAndGo(t *testing.T) { synctest.Test(t, testFilesComeAndGo) }

func testFilesComeAndGo(t *testing.T) {
	defer file.LeaveAfter(10 * time.Millisecond)()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a.log"), "a1\n")
	write(t, at("old-20260101.log"), "o1\n")
	s := open(t, dir, nil)
	s.unordered("a1", "o1")
	write(t, at("b.log"), "b1\n")
	s.want("b1")
	rename(t, at("a.log"), at("a.log.1")) // a rotated file, which belongs to a.log
	write(t, at("a.log.1"), "a2\n")
	write(t, at("a.log"), "a3\n")
	s.want("a2", "a3")
	if err := os.Remove(at("b.log")); err != nil {
		t.Fatal(err)
	}
	write(t, at("a.log"), "a4\n")
	last := s.want("a4")
	deadline := time.Now().Add(wait.Limit)
	for strings.Contains(string(last[0].Position), "b.log") {
		if time.Now().After(deadline) {
			t.Fatalf("the removed file is still in %s", last[0].Position)
		}
		time.Sleep(time.Second) // a scan is due
		write(t, at("a.log"), "more\n")
		last = s.want("more")
	}
	s = open(t, dir, last[0].Position)
	s.wantNothing()
	write(t, at("b.log"), "b1 again\n")
	s.want("b1 again")
}

// TestPositionsOfOneFileAndOfSeveral changes the path of a pipeline from one file to several, and back.
func TestPositionsOfOneFileAndOfSeveral(t *testing.T) {
	synctest.Test(t, testPositionsOfOneFileAndOfSeveral)
}

func testPositionsOfOneFileAndOfSeveral(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	write(t, a, "a1\na2\n")
	write(t, b, "b1\n")
	one := open(t, a, nil).want("a1", "a2")
	both := open(t, dir, one[0].Position).unordered("a2", "b1")
	open(t, dir, both[1].Position).wantNothing()
	write(t, a, "a3\n")
	open(t, a, both[1].Position).want("a3")
	other := filepath.Join(t.TempDir(), "other.log")
	write(t, other, "o1\n")
	for _, c := range []struct {
		path string
		pos  record.Position
		want string
	}{
		{dir, record.Position("x=1;2"), "not a position"},
		{dir, record.Position("x=1;2;3;4;-"), "not a position of file"},
		{other, record.Position("end"), "not a position of file"},
		{other, both[1].Position, "one of a directory or a pattern without " + other},
	} {
		_, err := tryOpen(t, c.path, c.pos)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "`conduit connectors position ID reset`") {
			t.Errorf("%s at %s: got %v, want %q", c.path, c.pos, err, c.want)
		}
	}
}

func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 300 {
		write(t, filepath.Join(dir, fmt.Sprintf("%s%d", strings.Repeat("x", 220), i)), "1\n")
	}
	s := open(t, dir, nil)
	for {
		if _, err := s.Read(t.Context()); err != nil {
			if !strings.Contains(err.Error(), "cannot follow the 300 files") {
				t.Errorf("got %v", err)
			}
			return
		}
	}
}

func TestGroups(t *testing.T) {
	path := newPath(t)
	write(t, path, "continued\nA 1\n  at x\n  at y\nA 2\nA 3\n  at z\n")
	settings := []string{"multiline.start", "^A", "multiline.timeout", "10ms"}
	s := open(t, path, nil, settings...)
	records := s.want("continued", "A 1\n  at x\n  at y", "A 2", "A 3\n  at z")
	for i, want := range []string{"1", "2", "5", "6"} {
		if key, _ := records[i].Key.Raw(); string(key) != want {
			t.Errorf("record %d has the key %s, want %s", i, key, want)
		}
	}
	write(t, path, "  late\n  half")
	s.want("  late")
	write(t, path, " whole\nA 4\n")
	rest := s.want("  half whole", "A 4")
	open(t, path, rest[0].Position, settings...).want("A 4")
	open(t, path, records[1].Position, settings...).want("A 2", "A 3\n  at z\n  late\n  half whole", "A 4")
	rename(t, path, path+".1")
	write(t, path+".1", "A 5\n  end")
	write(t, path, "A 6\n")
	s.want("A 5\n  end", "A 6")
}

func TestGroupsRefuseNoExpression(t *testing.T) {
	source := file.Connector(zstd.Codec{}).NewSource()
	err := source.Configure(t.Context(), settingsOf("x", []string{"multiline.start", "("}))
	if err == nil || !strings.Contains(err.Error(), `"multiline.start"`) {
		t.Errorf("got %v", err)
	}
}

func TestCompressed(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{".gz", ".zst"} {
		runVirtual(t, ext, func(t *testing.T) {
			path := newPath(t) + ext
			lines := manyLines(10000)
			pack(t, path, strings.Join(lines, "\n")) // without a newline at the end
			records := open(t, path, nil).want(lines...)
			for _, i := range []int{0, 1, 4999, 9998} {
				open(t, path, records[i].Position).want(lines[i+1:]...)
			}
			s := open(t, path, records[9999].Position)
			s.wantNothing()
			pack(t, path, "more\n") // another member
			age(t, path, time.Minute)
			s.want("more")
		})
	}
}

// TestHalfCompressed reads a compressed file that is still incomplete.
func TestHalfCompressed(t *testing.T) { synctest.Test(t, testHalfCompressed) }

func testHalfCompressed(t *testing.T) {
	path := newPath(t) + ".gz"
	pack(t, path, strings.Join(manyLines(2000), "\n")+"\n")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	truncate(t, path)
	write(t, path, string(whole[:5]))
	s := open(t, path, nil)
	s.wantNothing()
	write(t, path, string(whole[5:len(whole)/2]))
	age(t, path, time.Minute)
	first, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(whole[len(whole)/2:]))
	age(t, path, time.Minute)
	for len(first) < 2000 {
		more, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, more...)
	}
	if got := texts(first); !slices.Equal(got, manyLines(2000)) {
		t.Errorf("got %d lines that differ", len(got))
	}
}

// TestCompressedWhileStopped resumes in a file that was rotated and compressed.
func TestCompressedWhileStopped(t *testing.T) {
	for _, name := range []string{"app.log.1.gz", "app-20260927.log.zst"} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, "a1\na2\n")
			records := open(t, path, nil).want("a1", "a2")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			pack(t, filepath.Join(filepath.Dir(path), name), "a1\na2\na3\n")
			write(t, path, "b1\n")
			open(t, path, records[0].Position).want("a2", "a3", "b1")
		})
	}
}

func TestNotCompressed(t *testing.T) {
	path := newPath(t) + ".gz"
	write(t, path, "this is long enough for a header\n")
	if _, err := open(t, path, nil).Read(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "gzip: invalid header") {
		t.Errorf("got %v", err)
	}
	open(t, path, nil, "compression", "none").want("this is long enough for a header")
}

func TestProgress(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntwo\n")
	s := &file.Source{}
	if err := s.Configure(t.Context(), settingsOf(path, nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(t.Context()) }()
	if _, err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.Progress(); r.Bytes == nil || *r.Bytes != 8 {
		t.Errorf("got %+v", r)
	}
}
