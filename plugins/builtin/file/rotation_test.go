package file_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRotation(t *testing.T) {
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
	if pos := string(records[1].Position); !strings.HasSuffix(pos, ";1") {
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
		write(t, path+".tmp", "one\ntwo\n")
		rename(t, path+".tmp", path)
		s.want("one", "two")
	}
}

func TestRemovedAndCreated(t *testing.T) {
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

func TestTruncation(t *testing.T) {
	path := newPath(t)
	write(t, path, "one\ntwo\nhalf")
	s := open(t, path, nil)
	old := s.want("one", "two")
	truncate(t, path)
	s.wantNothing()
	write(t, path, "a\n")
	now := s.want("a")
	// As long as before, and longer, before anybody looks.
	truncate(t, path)
	write(t, path, "b\n")
	s.want("b")
	truncate(t, path)
	write(t, path, "longer than before\n")
	s.want("longer than before")
	for _, r := range old {
		if string(r.Position) == string(now[0].Position) {
			t.Errorf("position %q came twice", r.Position)
		}
	}
}

func TestSameContentAgainHasOtherPositions(t *testing.T) {
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

// TestResumeElsewhere reads a line, stops, lets something happen to the file, and goes on.
func TestResumeElsewhere(t *testing.T) {
	header := strings.Repeat("#", 300) // more than files are told apart by
	tests := map[string]struct {
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
		"rotated, all files begin alike": {header + "\ntwo\n", func(t *testing.T, path string) {
			write(t, path+".2", header+"\nwrong\n")
			rename(t, path, path+".1")
			write(t, path, header+"\nthree\n")
		}, []string{"two", header, "three"}},
		"rotated, no new file yet": {"one\ntwo\n", func(t *testing.T, path string) {
			rename(t, path, path+".1")
		}, []string{"two"}},
		"copied and cut off": {"one\ntwo\n", func(t *testing.T, path string) {
			content, _ := os.ReadFile(path)
			write(t, path+".1", string(content))
			truncate(t, path)
			write(t, path, "three\n")
		}, []string{"two", "three"}},
		"copied and cut off, other files begin alike": {header + "\ntwo\n", func(t *testing.T, path string) {
			write(t, path+".0", header+"\nolder\n")
			if err := os.Chtimes(path+".0", time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
			write(t, path+".1", header+"\ntwo\n")
			write(t, path+".2", header+" longer\nanother\n")
			if err := os.Chtimes(path+".2", time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			truncate(t, path)
			write(t, path, "three\n")
		}, []string{"two", "three"}},
		"copied and cut off, begins alike": {header + "\ntwo\n", func(t *testing.T, path string) {
			write(t, path+".1", header+"\ntwo\n")
			truncate(t, path)
			write(t, path, header[:280]+"\n")
		}, []string{"two", header[:280]}},
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
	for name, tt := range tests {
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

func TestResumeBehindTheLastLineOfARotatedFile(t *testing.T) {
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
