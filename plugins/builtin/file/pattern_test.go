package file_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/a/**/*.log", "/a/x.log", true},
		{"/a/**/*.log", "/a/b/c/x.log", true},
		{"/a/**/*.log", "/a/b/x.txt", false},
		{"/a/**/*.log", "/b/x.log", false},
		{"/a/**/c/*.log", "/a/c/x.log", true},
		{"/a/**/c/*.log", "/a/b/d/x.log", false},
		{"/a/**/**/c/**/x", "/a/c/x", true},
		{"/a/**/**/c/**/x", "/a/1/c/2/3/x", true},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/a", false},
		{"**/x", "x", true},
		{"**/x", "a/b/x", true},
		{"a/*/x", "a/b/x", true},
		{"a/*/x", "a/b/c/x", false},
		{`a/\*/x`, "a/*/x", true},
		{"[ab]/**/y?", "b/c/yz", true},
	} {
		if got := file.Match(c.pattern, c.path); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.path, got)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, c := range []struct{ setting, pattern, want string }{
		{"path", "/a/b**/c", "alone between two /"},
		{"path", "/a/***/c", "alone between two /"},
		{"path", "/a/[b/c", "has a [ without its ]"},
		{"path", "/a/{b,c}.log", "use one source for each name"},
		{"path", "~/x", "write the home directory"},
		{"path", "a\x00", "NUL"},
		{"exclude", "a**", `pattern "a**" has **`},
		{"exclude", "x[", `pattern "x[" has a [`},
	} {
		settings := map[string]string{"path": "/var/log/**/*.log"}
		settings[c.setting] = c.pattern
		err := file.Connector(zstd.Codec{}).NewSource().Configure(t.Context(), settings)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"`+c.setting+`"`) {
			t.Errorf("%s %q: got %v, want %q", c.setting, c.pattern, err, c.want)
		}
	}
	odd := filepath.Join(t.TempDir(), "a**b") // a file that has the name of a bad pattern
	write(t, odd, "1\n")
	open(t, odd, nil).want("1")
}

// expression translates a pattern without classes and escapes to a regular expression.
func expression(pattern string) *regexp.Regexp {
	pattern = path.Clean(pattern)
	if pattern == "**" || strings.HasSuffix(pattern, "/**") {
		pattern += "/*"
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if part == "**" {
			b.WriteString(`(?:[^/]*/)*`)
			continue
		}
		for _, c := range part {
			switch c {
			case '*':
				b.WriteString(`[^/]*`)
			case '?':
				b.WriteString(`[^/]`)
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		if i < len(parts)-1 {
			b.WriteString("/")
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// FuzzPattern compares patterns with regular expressions.
func FuzzPattern(f *testing.F) {
	f.Add("/var/log/**/*.log", "/var/log/a/b.log")
	f.Add("**", "a/b")
	f.Add("a/**/**/b/**", "a/x/b/c")
	f.Add("?*/**/c", "ab/c")
	f.Add("a/[b-", "a/b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		err := file.CheckPattern("exclude", pattern)
		got := file.Match(pattern, name) // of a bad pattern, too, it must return
		if err != nil || strings.ContainsAny(pattern, `[\`) || strings.ToValidUTF8(pattern+name, "") != pattern+name {
			return
		}
		if want := expression(pattern).MatchString(name); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	})
}

// makeFiles creates files with their names as their only line, and returns their directory.
func makeFiles(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, name+"\n")
	}
	return dir
}

func TestRecursion(t *testing.T) { synctest.Test(t, testRecursion) }

func testRecursion(t *testing.T) {
	dir := makeFiles(t, "x.log", "a/y.log", "a/b/c/z.log", "a/b/n.txt", ".hidden/h.log", "a/.h.log", "tmp/t.log",
		"a/tmp/u.log", "a/b/debug.log")
	outside := makeFiles(t, "o.log")
	for from, to := range map[string]string{"a/loop": dir, "a/b/self": ".", "out": outside,
		"link.log": filepath.Join(outside, "o.log")} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, exclude string
		want          []string
	}{
		{"**/*.log", "", []string{"x.log", "a/y.log", "a/b/c/z.log", "tmp/t.log", "a/tmp/u.log", "a/b/debug.log", "o.log"}},
		{"**/*.log", "tmp, debug.*", []string{"x.log", "a/y.log", "a/b/c/z.log", "o.log"}},
		{"**/*.log", dir + "/tmp, " + dir + "/**/debug.log", []string{"x.log", "a/y.log", "a/b/c/z.log", "a/tmp/u.log",
			"o.log"}},
		{"**", "*.log", []string{"a/b/n.txt"}},
		{"a/**/c/*", "", []string{"a/b/c/z.log"}},
		{"*/*.log", "a", []string{"tmp/t.log", "o.log", ".hidden/h.log"}},
		{"", "link.log", []string{"x.log"}},
	} {
		s := open(t, filepath.Join(dir, c.path), nil, "exclude", c.exclude)
		last := s.unordered(c.want...)
		open(t, filepath.Join(dir, c.path), last[len(last)-1].Position, "exclude", c.exclude).wantNothing()
	}
}

// A file that is excluded by a later change of the settings is not read further.
func TestExcludedLater(t *testing.T) {
	dir := makeFiles(t, "a.log", "b.log")
	last := open(t, dir, nil).unordered("a.log", "b.log")
	write(t, filepath.Join(dir, "a.log"), "no\n")
	write(t, filepath.Join(dir, "b.log"), "yes\n")
	open(t, dir, last[1].Position, "exclude", "a.*").want("yes")
}

func TestNotes(t *testing.T) {
	dir := makeFiles(t, "a.log", "sub/b.log")
	for _, c := range []struct {
		path, exclude string
		want          []string
	}{
		{"*.log", "", nil},
		{"*.txt", "", []string{"no file matches " + dir + "/*.txt"}},
		{"**/*.txt", "b.log,x", []string{"no file matches " + dir + "/**/*.txt", "nothing matches b.log in exclude",
			"nothing matches x in exclude"}},
		{"**/*.log", "sub,x*", []string{"nothing matches x* in exclude"}},
		{"missing.log", "", []string{"there is no file " + dir + "/missing.log"}},
		{"a.log", "", nil},
	} {
		path := filepath.Join(dir, c.path)
		s := &file.Source{}
		if err := s.Configure(t.Context(), settingsOf(path, []string{"exclude", c.exclude})); err != nil {
			t.Fatal(err)
		}
		if got := s.Notes(t.Context()); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s without %s: got %q, want %q", c.path, c.exclude, got, c.want)
		}
	}
}

// The notes of a running source change with the files.
func TestNotesOfProgress(t *testing.T) { runVirtual(t, "", testNotesOfProgress) }

func testNotesOfProgress(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "**", "*.log"), nil)
	s.wantNothing()
	progress := func() []string { return s.Source.(*file.Source).Progress().Notes }
	if got := progress(); len(got) != 1 || got[0] != "no file matches "+dir+"/**/*.log" {
		t.Errorf("got %q", got)
	}
	write(t, filepath.Join(dir, "a.log"), "1\n")
	s.want("1")
	s.wantNothing()
	for range 30 { // until it measures again
		s.wantNothing()
	}
	if got := progress(); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
