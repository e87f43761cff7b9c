package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

func TestRotation(t *testing.T) { synctest.Test(t, testRotation) }

func testRotation(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n")
	s := open(t, path, nil)
	s.want("one")
	rename(t, path, path+".1")
	write(t, path+".1", "two\nhalf")
	s.want("two")
	s.wantNothing()
	write(t, path, "")
	write(t, path+".1", "-whole")
	s.wantNothing()
	write(t, path, "three\n")
	records := s.want("half-whole", "three")
	if key, _ := records[1].Key.Raw(); string(key) != "1" {
		t.Errorf("got key %q of the first line in the new file", key)
	}
	if pos := strings.Split(string(records[1].Position), ";"); pos[4] != "1" {
		t.Errorf("got position %q behind one rotation", pos)
	}
	write(t, path, "four\n")
	s.want("four")
}

func TestReplacedByRename(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n")
	s := open(t, path, nil)
	s.want("one")
	for range 3 {
		for _, content := range []string{"other\ntwo\n", "one\ntwo\n"} {
			write(t, path+".tmp", content)
			rename(t, path+".tmp", path)
			s.want(strings.Fields(content)...)
		}
	}
}

// A file that replaces another one and begins with its complete read content, as after a copy by rsync, is read from
// there, also after a restart. If the old file was rotated, the new one is read from its beginning.
func TestReplacedByCopy(t *testing.T) {
	replace := func(t *testing.T, path, content string) {
		t.Helper()
		write(t, path+".tmp", content)
		rename(t, path+".tmp", path)
	}
	runVirtual(t, "while it is read", func(t *testing.T) {
		path := newPath(t)
		write(t, path, "one\n")
		s := open(t, path, nil)
		s.want("one")
		replace(t, path, "one\ntwo\n")
		s.want("two")
		replace(t, path, "one\ntwo\n")
		s.wantNothing()
		replace(t, path, "one\ntwo\nthree\n")
		write(t, path, "four\n")
		s.want("three", "four")
		if skipped := s.Source.(sdk.Reporter).Progress().Skipped; len(skipped) > 0 {
			t.Errorf("left out: %v", skipped)
		}
	})
	runVirtual(t, "while it is not", func(t *testing.T) {
		path := newPath(t)
		write(t, path, "one\n")
		pos := open(t, path, nil).want("one")[0].Position
		replace(t, path, "one\ntwo\n")
		pos = open(t, path, pos).want("two")[0].Position
		replace(t, path, "one\ntwo\nthree\n")
		open(t, path, pos).want("three")
		replace(t, path, "one\nother\n")
		open(t, path, pos).want("one", "other")
	})
	runVirtual(t, "with the old one rotated", func(t *testing.T) {
		path := newPath(t)
		write(t, path, "one\n")
		s := open(t, path, nil)
		pos := s.want("one")[0].Position
		rename(t, path, path+".1")
		write(t, path, "one\ntwo\n")
		s.want("one", "two")
		open(t, path, pos).want("one", "two")
	})
}

// A rewritten file that begins like every content, and is longer than the read part, is read from its beginning, also
// after a restart.
func TestRewrittenWithTheSameBeginning(t *testing.T) {
	first, second := longHeader+"\nold,1\nold,2\n", longHeader+"\nnew,1\nnew,2\nnew,3\n"
	rewrite := func(t *testing.T, path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := newPath(t)
	rewrite(t, path, first)
	s := open(t, path, nil)
	pos := s.want(longHeader, "old,1", "old,2")[2].Position
	for range 2 {
		rewrite(t, path, second)
		s.want(longHeader, "new,1", "new,2", "new,3")
		rewrite(t, path, longHeader+"\nanother,1\nanother,2\nanother,3\n")
		s.want(longHeader, "another,1", "another,2", "another,3")
	}
	rewrite(t, path, second)
	open(t, path, pos).want(longHeader, "new,1", "new,2", "new,3")
}

func TestRemovedAndCreated(t *testing.T) { synctest.Test(t, testRemovedAndCreated) }

func testRemovedAndCreated(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n")
	s := open(t, path, nil)
	s.want("one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.wantNothing()
	write(t, path, "two\n")
	s.want("two")
}

func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

// age sets the modification time of a file to some time ago.
func age(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-ago)); err != nil {
		t.Fatal(err)
	}
}

// copyAndCutOff rotates a file like logrotate with copytruncate.
func copyAndCutOff(t *testing.T, path, to string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(content))
	truncate(t, path)
}

var rotatedBehindTheBackCases = map[string]struct {
	happens func(t *testing.T, path string)
	want    []string
}{
	"renamed twice": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "b1\nb2\n")
		rename(t, path+".1", path+".2")
		rename(t, path, path+".1")
		write(t, path, "c1\n")
	}, []string{"a2", "b1", "b2", "c1"}},
	"renamed many times": {func(t *testing.T, path string) {
		for i := range 12 {
			for n := i; n > 0; n-- {
				rename(t, path+"."+strconv.Itoa(n), path+"."+strconv.Itoa(n+1))
			}
			rename(t, path, path+".1")
			write(t, path, strconv.Itoa(i)+"\n")
		}
	}, []string{"a2", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}},
	"renamed twice, and nothing written since": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "b1\nb2\n")
		rename(t, path+".1", path+".2")
		rename(t, path, path+".1")
		write(t, path, "")
	}, []string{"a2", "b1", "b2"}},
	"renamed twice, and not made again": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "b1\nb2\n")
		rename(t, path+".1", path+".2")
		rename(t, path, path+".1")
	}, []string{"a2", "b1", "b2"}},
	"renamed with growing numbers": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		age(t, path+".1", 2*time.Hour)
		write(t, path, "b1\n")
		rename(t, path, path+".2")
		age(t, path+".2", time.Hour)
		write(t, path, "c1\n")
	}, []string{"a2", "b1", "c1"}},
	"renamed with dates": {func(t *testing.T, path string) {
		for i, to := range []string{"app-20260926.log", "app.log.2026-09-27", "app-2026-09-27T10-00-00.000.log"} {
			to = filepath.Join(filepath.Dir(path), to)
			rename(t, path, to)
			age(t, to, time.Duration(3-i)*time.Hour)
			write(t, path, strconv.Itoa(i)+"\n")
		}
	}, []string{"a2", "0", "1", "2"}},
	"renamed among other files": {func(t *testing.T, path string) {
		write(t, path+".2", "long read\n")
		age(t, path+".2", time.Hour)
		for _, name := range []string{path + ".err", path + ".swp", path + "-2", path + ".1.tmp",
			strings.TrimSuffix(path, ".log") + "-2.log", strings.TrimSuffix(path, ".log") + ".1"} {
			write(t, name, "another\n")
		}
		rename(t, path, path+".1")
		write(t, path, "b1\n")
	}, []string{"a2", "b1"}},
	"linked": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "b1\n")
		if err := os.Link(path, path+".0"); err != nil {
			t.Fatal(err)
		}
	}, []string{"a2", "b1"}},
	"copied and cut off": {func(t *testing.T, path string) {
		copyAndCutOff(t, path, path+".1")
		write(t, path, "b1\n")
	}, []string{"a2", "b1"}},
	"copied and cut off twice": {func(t *testing.T, path string) {
		copyAndCutOff(t, path, path+".2")
		write(t, path, "b1\nb2\n")
		copyAndCutOff(t, path, path+".1")
		write(t, path, "c1\n")
	}, []string{"a2", "b1", "b2", "c1"}},
}

// TestRotatedBehindTheBack reads a line, changes the file while nothing reads, and continues: with the same source, and
// with one that resumes.
func TestRotatedBehindTheBack(t *testing.T) {
	t.Parallel()
	tests := rotatedBehindTheBackCases
	for name, tt := range tests {
		for _, stopped := range []bool{false, true} {
			runVirtual(t, fmt.Sprintf("%s/stopped=%v", name, stopped), func(t *testing.T) {
				path := newPath(t)
				write(t, path, "a1\n")
				s := open(t, path, nil)
				pos := s.want("a1")[0].Position
				write(t, path, "a2\n")
				tt.happens(t, path)
				if stopped {
					s = open(t, path, pos)
				}
				s.want(tt.want...)
				s.wantNothing()
			})
		}
	}
}

func TestCopiedAndCutOffWithHeaders(t *testing.T) {
	header := strings.Repeat("#", 300) // longer than the head that identifies a file
	path := newPath(t)
	write(t, path, header+"\na1\n")
	s := open(t, path, nil)
	s.want(header, "a1")
	write(t, path+".3", header+"\nz1\nz2\n")
	age(t, path+".3", time.Hour)
	write(t, path, "a2\n")
	copyAndCutOff(t, path, path+".2")
	age(t, path+".2", -time.Hour)
	write(t, path, header+"\nb1\nb2\n")
	copyAndCutOff(t, path, path+".1")
	age(t, path+".1", -2*time.Hour)
	write(t, path, "c1\n")
	age(t, path, -3*time.Hour)
	s.want("a2", header, "b1", "b2", "c1")
}

// A file that was replaced by a rename is still read to its end while the source runs, and so is its replacement.
func TestOverwrittenWhileRead(t *testing.T) {
	path := newPath(t)
	write(t, path, "a1\n")
	s := open(t, path, nil)
	s.want("a1")
	write(t, path, "a2\n")
	for _, line := range []string{"b1\n", "c1\n"} {
		rename(t, path, path+".old")
		write(t, path, line)
	}
	s.want("a2", "b1", "c1")
}

// TestSaysThatFirstLinesAreMissing checks the warning for a file that appears between two scans together with its
// rotated file.
func TestSaysThatFirstLinesAreMissing(t *testing.T) {
	synctest.Test(t, testSaysThatFirstLinesAreMissing)
}

func testSaysThatFirstLinesAreMissing(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	dir, stage := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"one/a.log": "a2\n", "one/a.log.1": "a1\n", "two/b.log": "b2\n",
		"two/b.log.1": "b1\n"} {
		if err := os.MkdirAll(filepath.Join(stage, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(stage, name), text)
	}
	rename(t, filepath.Join(stage, "one"), filepath.Join(dir, "one"))
	s := source{file.Connector(zstd.Codec{}).NewSource(), t}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: logger})
	if err := errors.Join(s.Configure(ctx, map[string]string{"path": filepath.Join(dir, "*", "*.log")}),
		s.Open(ctx, nil)); err != nil {
		t.Fatal(err)
	}
	s.want("a2") // rotated before the source started
	touch := time.Now()
	if err := os.Chtimes(filepath.Join(stage, "two/b.log.1"), touch, touch); err != nil {
		t.Fatal(err)
	}
	rename(t, filepath.Join(stage, "two"), filepath.Join(dir, "two"))
	s.want("b2")
	s.leavesOut(filepath.Join(dir, "two/b.log.1"), "it was rotated before")
	if err := s.Teardown(ctx); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "the lines of the rotated one are missing") != 1 ||
		!strings.Contains(text, "rotated=b.log.1") {
		t.Errorf("the log is %q", text)
	}
}

func TestSaysThatLinesAreMissing(t *testing.T) {
	for name, tt := range lossyRotations {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			path := newPath(t)
			write(t, path, "a1\n")
			s := source{file.Connector(zstd.Codec{}).NewSource(), t}
			ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: logger})
			if err := errors.Join(s.Configure(ctx, map[string]string{"path": path}), s.Open(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			s.want("a1")
			write(t, path, "a2\n")
			tt.happens(t, path)
			s.want(tt.want...)
			left := len(s.Source.(sdk.Reporter).Progress().Skipped)
			if err := s.Teardown(ctx); err != nil {
				t.Error(err)
			}
			// The source does not know lines that were added to a truncated file after its last look.
			if known := strings.Contains(tt.says, "compressed"); (left > 0) != known {
				t.Errorf("the status names %d items that are left out", left)
			}
			switch text := log.String(); {
			case tt.says == "" && text != "":
				t.Errorf("it warns: %s", text)
			case !strings.Contains(text, tt.says) || strings.Count(text, "\n") > 1:
				t.Errorf("got warnings %q, want one with %q", text, tt.says)
			}
		})
	}
}

// compress gives a file the name of a compressed one.
func compress(t *testing.T, path string) {
	t.Helper()
	rename(t, path, path+".xz")
}

// lossyRotations are changes that lose lines. They happen to a file from which "a1" was read, and "a2" not yet.
var lossyRotations = map[string]struct {
	happens func(t *testing.T, path string)
	want    []string
	says    string
}{
	"cut off": {func(t *testing.T, path string) {
		truncate(t, path)
		write(t, path, "b\n")
	}, []string{"b"}, "no copy exists"},
	"compressed": {func(t *testing.T, path string) {
		rename(t, path, path+".2")
		write(t, path, "b1\n")
		rename(t, path, path+".1")
		compress(t, path+".1")
		write(t, path, "c1\n")
	}, []string{"a2", "c1"}, "is compressed in a way that is not read: its lines are missing"},
	"all compressed": {func(t *testing.T, path string) {
		rename(t, path, path+".2")
		write(t, path+".2.xz", "a\n")
		if err := os.Remove(path + ".2"); err != nil {
			t.Fatal(err)
		}
		write(t, path, "b1\n")
		rename(t, path, path+".1")
		compress(t, path+".1")
		write(t, path, "c1\n")
	}, []string{"a2", "c1"}, "is compressed in a way that is not read: its lines are missing"},
	"only read ones compressed": {func(t *testing.T, path string) {
		write(t, path+".2.gz", "z\n")
		age(t, path+".2.gz", time.Hour)
		rename(t, path, path+".1")
		write(t, path+".1.gz", "a\n")
		write(t, path, "b1\n")
	}, []string{"a2", "b1"}, ""},
	"cut off, with a copy": {func(t *testing.T, path string) {
		copyAndCutOff(t, path, path+".1")
		write(t, path, "b1\n")
	}, []string{"a2", "b1"}, ""},
	"compressed with gzip": {func(t *testing.T, path string) {
		rename(t, path, path+".2")
		write(t, path, "b1\n")
		pack(t, path+".1.gz", "b1\n")
		write(t, path, "c1\n")
		write(t, path+".new", "c1\n")
		rename(t, path+".new", path)
	}, []string{"a2", "b1", "c1"}, ""},
	"renamed": {func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "b1\n")
	}, []string{"a2", "b1"}, ""},
}

func TestTruncation(t *testing.T) { synctest.Test(t, testTruncation) }

func testTruncation(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntwo\nhalf")
	s := open(t, path, nil)
	old := s.want("one", "two")
	truncate(t, path)
	s.wantNothing()
	s.leavesOut("lines of "+path+" from 3 on", "was truncated")
	write(t, path, "a\n")
	now := s.want("a")
	// The new content is as long as the old one, and longer, between two polls.
	truncate(t, path)
	write(t, path, "b\n")
	s.want("b")
	truncate(t, path)
	write(t, path, "longer than before\n")
	s.want("longer than before")
	if skipped := s.Source.(sdk.Reporter).Progress().Skipped; len(skipped) != 1 {
		t.Errorf("left out: %v, want the half line alone", skipped)
	}
	for _, r := range old {
		if string(r.Position) == string(now[0].Position) {
			t.Errorf("position %q came twice", r.Position)
		}
	}
}

func TestRepeatedContentHasNewPositions(t *testing.T) {
	synctest.Test(t, testRepeatedContentHasNewPositions)
}

func testRepeatedContentHasNewPositions(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n")
	s := open(t, path, nil)
	before := s.want("one")[0].Position
	truncate(t, path)
	s.wantNothing()
	write(t, path, "one\n")
	if after := s.want("one")[0].Position; string(after) == string(before) {
		t.Errorf("position %q came twice", after)
	}
}

// TestResumeElsewhere reads a line, stops, changes the file, and continues.
func TestResumeElsewhere(t *testing.T) {
	for name, tt := range resumptions {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, tt.before)
			s := open(t, path, nil)
			records, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tt.happens(t, path)
			open(t, path, records[0].Position).want(tt.want...)
		})
	}
}

// longHeader is longer than the head that identifies a file.
var longHeader = strings.Repeat("#", 300)

// resumptions are changes, while the source is stopped, to a file from which one line was read.
var resumptions = map[string]struct {
	before  string
	happens func(t *testing.T, path string)
	want    []string
}{
	"nothing": {"one\n", func(t *testing.T, path string) { write(t, path, "two\n") }, []string{"two"}},
	"rotated": {"one\ntwo\nthree", func(t *testing.T, path string) {
		rename(t, path, path+".1")
		write(t, path, "four\n")
	}, []string{"two", "three", "four"}},
	"rotated to a foreign name": {"one\ntwo\n", func(t *testing.T, path string) {
		rename(t, path, strings.TrimSuffix(path, "app.log")+"old")
		write(t, path, "three\n")
	}, []string{"two", "three"}},
	"rotated, all files begin alike": {longHeader + "\ntwo\n", func(t *testing.T, path string) {
		write(t, path+".2", longHeader+"\nwrong\n")
		age(t, path+".2", time.Hour)
		rename(t, path, path+".1")
		write(t, path, longHeader+"\nthree\n")
	}, []string{"two", longHeader, "three"}},
	"rotated, no new file yet": {"one\ntwo\n", func(t *testing.T, path string) {
		rename(t, path, path+".1")
	}, []string{"two"}},
	"copied and cut off": {"one\ntwo\n", func(t *testing.T, path string) {
		content, _ := os.ReadFile(path)
		write(t, path+".1", string(content))
		truncate(t, path)
		write(t, path, "three\n")
	}, []string{"two", "three"}},
	"copied and cut off, other files begin alike": {longHeader + "\ntwo\n", func(t *testing.T, path string) {
		write(t, path+".0", longHeader+"\nolder\n")
		age(t, path+".0", time.Hour)
		write(t, path+".1", longHeader+"\ntwo\n")
		write(t, path+".2", longHeader+" longer\nanother\n")
		age(t, path+".2", -time.Hour)
		truncate(t, path)
		write(t, path, "three\n")
	}, []string{"two", "three"}},
	"copied and cut off, begins alike": {longHeader + "\ntwo\n", func(t *testing.T, path string) {
		write(t, path+".1", longHeader+"\ntwo\n")
		truncate(t, path)
		write(t, path, longHeader[:280]+"\n")
	}, []string{"two", longHeader[:280]}},
	"cut off and grown": {"one\ntwo\n", func(t *testing.T, path string) {
		truncate(t, path)
		write(t, path, "uno\ndue\ntre\n")
	}, []string{"uno", "due", "tre"}},
	"replaced": {"one\ntwo\n", func(t *testing.T, path string) {
		write(t, path+".new", "uno\n")
		rename(t, path+".new", path)
	}, []string{"uno"}},
	"removed": {"one\ntwo\n", func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, path, "uno\n")
	}, []string{"uno"}},
}

func TestResumeAfterLastLineOfRotatedFile(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntwo")
	s := open(t, path, nil)
	s.want("one")
	rename(t, path, path+".1")
	write(t, path, "three\n")
	records := s.want("two", "three")
	s = open(t, path, records[0].Position)
	s.want("three")
	write(t, path, "four\n")
	open(t, path, records[1].Position).want("four")
}

func TestShorterThanAnOffset(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\n")
	open(t, path, []byte("100")).want("one")
}
