package file_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestFinish checks that Finish makes the source read the unterminated ends of files as lines, for every kind of file.
func TestFinish(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("one\ntwo"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path     string // path of the source
		files    map[string]string
		settings []string
		before   []string // lines read before Finish
		after    []string // lines read after Finish
		left     bool     // bytes remain unread before Finish
	}{
		"a line": {"in", map[string]string{"in": "one\ntwo"}, nil, []string{"one"}, []string{"two"},
			false},
		"one line": {"in", map[string]string{"in": "one"}, nil, nil, []string{"one"}, false},
		"a line of Windows": {"in", map[string]string{"in": "one\r\ntwo\r"}, nil, []string{"one\r"}, []string{"two\r"},
			false},
		"an empty file": {"in", map[string]string{"in": ""}, nil, nil, nil, false},
		"whole lines":   {"in", map[string]string{"in": "one\n"}, nil, []string{"one"}, nil, false},
		"a group": {"in", map[string]string{"in": "> one\na\n> two\nb"}, []string{"multiline.start", "^>",
			"multiline.timeout", "1h"}, []string{"> one\na"}, []string{"> two\nb"}, false},
		"a directory": {".", map[string]string{"a": "one\ntwo", "b": "three"}, nil, []string{"one"},
			[]string{"two", "three"}, false},
		"a compressed file": {"in.gz", map[string]string{"in.gz": packed.String()}, nil, []string{"one", "two"}, nil,
			false},
		"half of one": {"in.gz", map[string]string{"in.gz": packed.String()[:packed.Len()-4]}, nil,
			[]string{"one"}, []string{"two"}, true},
		"a file that is not there": {"in", nil, nil, nil, nil, false},
	} {
		runVirtual(t, name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := open(t, filepath.Join(dir, c.path), nil, c.settings...)
			s.unordered(c.before...)
			s.Source.(sdk.FinishingSource).Finish()
			s.unordered(c.after...)
			left := func() int64 {
				s.wantNothing()
				return *s.Source.(sdk.Reporter).Progress().Bytes
			}
			wait.For(t, "what is left is known", func() bool { return (left() > 0) == c.left })
		})
	}
}

// A missing file is reported as unfinished. A pattern without a match only causes a warning.
func TestMissingFileIsUnfinished(t *testing.T) {
	for path, unfinished := range map[string]bool{"in": true, "in/": true, "in*": false, "there": false, "th*": false} {
		runVirtual(t, path, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "there"), []byte("one"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir+"/"+path, nil)
			s.Source.(sdk.FinishingSource).Finish()
			if strings.HasPrefix(path, "th") {
				s.unordered("one")
			}
			wait.For(t, "it is reported", func() bool {
				s.wantNothing()
				r := s.Source.(sdk.Reporter).Progress()
				return (r.Unfinished != "") == unfinished && (r.Nothing != "") == (path == "in*") && r.Bytes != nil &&
					*r.Bytes == 0
			})
		})
	}
}
