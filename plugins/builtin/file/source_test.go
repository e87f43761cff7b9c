package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// source is a source under test, closed when the test ends.
type source struct {
	sdk.Source
	t testing.TB
}

func tryOpen(t testing.TB, path string, pos record.Position, settings ...string) (*source, error) {
	t.Helper()
	s := &source{file.Connector(zstd.Codec{}).NewSource(), t}
	t.Cleanup(func() {
		if err := s.Teardown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Configure(t.Context(), settingsOf(path, settings)); err != nil {
		t.Fatal(err)
	}
	return s, s.Open(t.Context(), pos)
}

// settingsOf returns settings with the path and more, which alternates names and values.
func settingsOf(path string, more []string) map[string]string {
	all := map[string]string{"path": path}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func open(t testing.TB, path string, pos record.Position, settings ...string) *source {
	t.Helper()
	s, err := tryOpen(t, path, pos, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns the next n records.
func (s *source) read(n int) []record.Record {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), wait.Limit)
	defer cancel()
	var all []record.Record
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			s.t.Fatalf("cannot read record %d of %d: %v", len(all)+1, n, err)
		}
		all = append(all, records...)
	}
	if len(all) > n {
		s.t.Fatalf("got %d records, want %d: %q", len(all), n, texts(all))
	}
	return all
}

// want reads one record per line and compares them.
func (s *source) want(lines ...string) []record.Record {
	s.t.Helper()
	records := s.read(len(lines))
	if got := texts(records); strings.Join(got, "\n") != strings.Join(lines, "\n") {
		s.t.Fatalf("got %q, want %q", got, lines)
	}
	return records
}

// wantNothing checks that nothing arrives for longer than the longest pause.
func (s *source) wantNothing() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 300*time.Millisecond)
	defer cancel()
	if records, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatalf("got %q and %v, want nothing", texts(records), err)
	}
}

func texts(records []record.Record) []string {
	var out []string
	for _, r := range records {
		raw, _ := r.After.Raw()
		out = append(out, string(raw))
	}
	return out
}

func write(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// runVirtual runs a subtest in virtual time.
func runVirtual(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "app.log") }

func TestLines(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n\ncr\r\nünï\x00\xff\n")
	records := open(t, path, nil).want("one", "", "cr\r", "ünï\x00\xff")
	for i, r := range records {
		key, _ := r.Key.Raw()
		if string(key) != strconv.Itoa(i+1) {
			t.Errorf("got key %q of line %d", key, i+1)
		}
		if r.Operation != record.OperationCreate || !r.Before.IsNone() {
			t.Errorf("got %v with before %v", r.Operation, r.Before)
		}
		if want := record.NewMetadata(map[string]string{"file.path": path}); !r.Metadata.Equal(want) {
			t.Errorf("got metadata %v, want %v", r.Metadata, want)
		}
	}
	if offset, _, _ := strings.Cut(string(records[1].Position), ";"); offset != "5" {
		t.Errorf("got position %q, want offset 5", records[1].Position)
	}
}

// manyLines returns n lines of different lengths.
func manyLines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("%d:%s", i, strings.Repeat("x", i*i%997))
	}
	return lines
}

func TestManyLines(t *testing.T) {
	path := newPath(t)
	lines := manyLines(5000)
	write(t, path, strings.Join(lines, "\n")+"\n")
	records := open(t, path, nil).want(lines...)
	positions := map[string]bool{}
	for i := range records {
		positions[string(records[i].Position)] = true
		for _, key := range []string{"a", "b", "c", "x", "y", "z"} {
			records[i].Metadata.Set(key, strconv.Itoa(i))
		}
	}
	if len(positions) != len(lines) {
		t.Errorf("got %d different positions of %d", len(positions), len(lines))
	}
	for i, r := range records {
		if len(r.Metadata) != 7 || r.Metadata.Get("file.path") != path || r.Metadata.Get("z") != strconv.Itoa(i) {
			t.Fatalf("got metadata %v of record %d", r.Metadata, i)
		}
	}
}

func TestResumeAtEveryPosition(t *testing.T) { synctest.Test(t, testResumeAtEveryPosition) }

func testResumeAtEveryPosition(t *testing.T) {
	path := newPath(t)
	lines := manyLines(60)
	write(t, path, strings.Join(lines, "\n")+"\n")
	first := open(t, path, nil).read(60)
	for i := range 59 {
		for _, short := range []bool{false, true} {
			pos := string(first[i].Position)
			if short {
				pos, _, _ = strings.Cut(pos, ";")
			}
			records := open(t, path, record.Position(pos)).want(lines[i+1:]...)
			for j, r := range records {
				if !r.Equal(first[i+1+j]) {
					t.Fatalf("behind %q: got %v, want %v", pos, r, first[i+1+j])
				}
			}
		}
	}
	s := open(t, path, first[59].Position)
	s.wantNothing()
	write(t, path, "more\n")
	s.want("more")
}

func TestResumeInTheMiddleOfALine(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntwo\n")
	open(t, path, record.Position("6")).want("two")
}

func TestOpenRefusesPositions(t *testing.T) {
	path := newPath(t)
	for _, pos := range []string{
		"x", "-1", "1;2", "1;2;3;4;x", "1;2;z;4;5", "9999999999999999999",
		"1;2;3;4;5;6", "1;2;3;4;5;6;7", "9;2;3;4;5;6;1ffffffff",
		"9;2;3;4;5;6;7;8", "9;2;3;4;5;6;7;8,9", "9;2;3;4;5;6;7;8,9,x", "9;2;3;4;5;10;7;8,9,0", "0;2;3;4;5;6;7;0,0,0",
	} {
		if _, err := tryOpen(t, path, record.Position(pos)); err == nil {
			t.Errorf("opened at position %q", pos)
		}
	}
}

func TestHalfLineIsNoRecord(t *testing.T) { synctest.Test(t, testHalfLineIsNoRecord) }

func testHalfLineIsNoRecord(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntw")
	s := open(t, path, nil)
	pos := s.want("one")[0].Position
	s.wantNothing()
	write(t, path, "o")
	s.wantNothing()
	write(t, path, "\nthree")
	s.want("two")
	open(t, path, pos).want("two")
}

func TestWaitsForFile(t *testing.T) { synctest.Test(t, testWaitsForFile) }

func testWaitsForFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "app.log")
	s := open(t, path, nil)
	s.wantNothing()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.wantNothing()
	write(t, path, "one\n")
	s.want("one")
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	lines := []string{strings.Repeat("a", 300<<10), "b", strings.Repeat("c", 16<<20), "d"}
	write(t, path, strings.Join(lines, "\n")+"\n")
	s := open(t, path, nil)
	s.want(lines...)
	write(t, path, "e\n"+strings.Repeat("f", 16<<20+1)+"\ng\n")
	last := s.want("e", "g")
	if key, _ := last[1].Key.Raw(); string(key) != "7" {
		t.Errorf("the line behind the one that is left out has the number %s, want 7", key)
	}
	s.leavesOut("line 6 of "+path, "the line is longer than 16 MiB: it has 16777218 bytes from offset")
	open(t, path, last[0].Position).want("g")
}

// A line without an end takes no more memory than the longest valid line, and is omitted when its end arrives.
func TestEndlessLine(t *testing.T) {
	for name, c := range map[string]struct{ begin, end string }{
		"line":  {"", "\nnext\n"},
		"group": {"^(first|next)", "\nmore\nnext\nfirst\n"},
	} {
		runVirtual(t, name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, "first\n"+strings.Repeat("f", 17<<20))
			s := open(t, path, nil, "multiline.start", c.begin)
			if c.begin == "" {
				s.want("first")
			}
			s.wantNothing()
			write(t, path, strings.Repeat("g", 1<<20)+c.end)
			s.want("next")
			if c.begin == "" {
				s.leavesOut("line 2 of "+path, "it has 18874369 bytes from offset 6 on")
			} else {
				s.leavesOut("line 1 of "+path, "it has 18874380 bytes from offset 0 on")
			}
		})
	}
}

// Data omitted at the end of a finished file is reported too.
func TestEndlessLineAtTheEnd(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n"+strings.Repeat("f", 17<<20))
	s := open(t, path, nil)
	s.want("one")
	rename(t, path, path+".1")
	write(t, path, "two\n")
	s.want("two")
	s.leavesOut("line 2 of "+path, "it has 17825792 bytes from offset 4 on")
}

// leavesOut checks that the source reports the omitted data, and the reason.
func (s *source) leavesOut(item, why string) {
	s.t.Helper()
	r := s.Source.(sdk.Reporter).Progress()
	if len(r.Skipped) == 0 || r.Skipped[0].Of != item || !strings.Contains(r.Skipped[0].Error, why) {
		s.t.Errorf("left out: %v, want %s: %s", r.Skipped, item, why)
	}
}

// A hole is omitted if a program caused it by writing at its old offset in a truncated file.
func TestHoles(t *testing.T) {
	nul := func(n int) string { return strings.Repeat("\x00", n) }
	for name, c := range map[string]struct {
		hole    int64 // bytes that are never written
		content string
		want    []string
	}{
		"of a terabyte":                 {1 << 40, "one\ntwo\n", []string{"one", "two"}},
		"up to the middle of a block":   {17<<20 + 100, "one\ntwo\n", []string{"one", "two"}},
		"smaller than a block":          {100, "one\ntwo\n", []string{"one", "two"}},
		"copied, so that it is written": {0, nul(1<<20) + "one\n", []string{"one"}},
		"in the middle, written":        {0, "one\n" + nul(1<<20) + "two\n", []string{"one", "two"}},
		"NUL bytes in a line stay": {0, "o\x00e\n\x00two" + nul(20) + "\n",
			[]string{"o\x00e", "\x00two" + nul(20)}},
		"NUL bytes of a line stay":          {0, "one\n" + nul(20) + "two\n", []string{"one", nul(20) + "two"}},
		"text in UTF-16 stays":              {0, "\x00o\x00\n\x00t\x00\n", []string{"\x00o\x00", "\x00t\x00"}},
		"an empty line behind it is a line": {1 << 20, "\none\n", []string{"", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it takes time to see that nothing arrives
			path := newPath(t)
			write(t, path, "")
			if err := os.Truncate(path, c.hole); err != nil {
				t.Fatal(err)
			}
			s := open(t, path, nil)
			s.wantNothing()
			write(t, path, c.content)
			records := s.want(c.want...)
			if last := len(records) - 1; last > 0 {
				open(t, path, records[0].Position).want(c.want[1:]...)
			}
		})
	}
}

func TestRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "it is a pipe", "/dev/zero": "it is a device"} {
		if _, err := tryOpen(t, path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestFollowsLink(t *testing.T) {
	path := newPath(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	write(t, path, "one\n")
	s := open(t, link, nil)
	pos := s.want("one")[0].Position
	rename(t, path, path+".1")
	write(t, path+".1", "two\n")
	write(t, path, "three\n")
	s.want("two", "three")
	open(t, link, pos).want("two", "three")
}

func TestRequiresPath(t *testing.T) {
	if err := file.Connector(zstd.Codec{}).NewSource().Configure(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), `"path"`) {
		t.Errorf("got %v", err)
	}
	if err := file.Connector(zstd.Codec{}).NewDestination().Configure(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), `"path"`) {
		t.Errorf("got %v", err)
	}
}

func TestReadEndsWithContext(t *testing.T) {
	s := open(t, newPath(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Read(ctx)
		done <- err
	}()
	if err := s.Ack(t.Context(), []record.Position{record.Position("1")}); err != nil { // while Read waits
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkFileSource(b *testing.B) {
	path := newPath(b)
	line := strings.Repeat("x", 139) + "\n"
	const lines = 200_000
	if err := os.WriteFile(path, bytes.Repeat([]byte(line), lines), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	n, before := 0, cpuTime(b)
	for n < b.N {
		s := open(b, path, nil)
		for got := 0; got < lines && n < b.N; {
			records, err := s.Read(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			got, n = got+len(records), n+len(records)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/record")
}

// A byte order mark is not part of the first line. A file in UTF-16 is refused, because splitting it at newline bytes
// would cut characters.
func TestByteOrderMarks(t *testing.T) {
	path := newPath(t)
	write(t, path, "\xef\xbb\xbfid,name\n\xef\xbb\xbf1\n")
	pos := open(t, path, nil).want("id,name", "\xef\xbb\xbf1")[0].Position
	open(t, path, pos).want("\xef\xbb\xbf1")
	for _, text := range []string{"\xff\xfea\x00\n\x00", "\xfe\xff\x00a\x00\n"} {
		path := newPath(t)
		write(t, path, text)
		s := open(t, path, nil)
		if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
