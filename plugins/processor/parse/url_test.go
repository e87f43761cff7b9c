package parse_test

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		text     string
		settings []string
		want     map[string]any
	}{
		{"https://bob:p%40@[::1]:8443/a%20b?q=1&q=x+y&n=7#top", []string{"types", "n:int"}, map[string]any{
			"scheme": "https", "user": "bob", "password": "p@", "host": "::1", "port": int64(8443), "path": "/a b",
			"query": map[string]any{"q": []any{"1", "x y"}, "n": int64(7)}, "fragment": "top"}},
		{"/a?b", nil, map[string]any{"path": "/a", "query": map[string]any{"b": ""}}},
		{"/?a=1&&a=2&", []string{"duplicates", "first"},
			map[string]any{"path": "/", "query": map[string]any{"a": "1"}}},
		{"/?a=1&a=2", []string{"duplicates", "last"}, map[string]any{"path": "/", "query": map[string]any{"a": "2"}}},
		{"http://h?%zz", []string{"query", "text"}, map[string]any{"scheme": "http", "host": "h", "query": "%zz"}},
		{"mailto:a@b", nil, map[string]any{"scheme": "mailto", "path": "a@b"}},
		{"", nil, map[string]any{}},
	} {
		got, err := parseValue(t, "parse.url", with(nil, c.settings...), c.text)
		if diff := cmp.Diff(any(c.want), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"http://u:secret@h:x/":  ".Payload.After.v: its port is not a number",
		"http://h:70000/":       `.Payload.After.v: its port "70000" is not between 0 and 65535`,
		"http://u:secret@h/%zz": `.Payload.After.v: invalid URL escape "%zz"`,
		"/?a=%z":                `.Payload.After.v: its query: invalid URL escape "%z"`,
		":secret":               ".Payload.After.v: it is not a URL",
	} {
		if got, err := parseValue(t, "parse.url", nil, text); err == nil || err.Error() != want {
			t.Errorf("%s is %v, the error is %v, want %s", text, got, err, want)
		}
	}
}

// FuzzURL compares the parts with those of net/url.
func FuzzURL(f *testing.F) {
	for _, text := range []string{"", "http://u:p@h:1/a?b=c&b=d#e", "//h", "?%", "a:b", "/\xff?a;b",
		"http://[::1%25x]/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseValue(t, "parse.url", nil, text)
		u, wrong := url.Parse(text)
		if wrong != nil || err != nil {
			if wrong != nil && err == nil {
				t.Errorf("%q: there is no error, want %v", text, wrong)
			}
			return
		}
		members, _ := got.(map[string]any)
		path, _ := members["path"].(string)
		host, _ := members["host"].(string)
		if path != u.Path+u.Opaque || host != u.Hostname() {
			t.Errorf("%q is %v, want the path %q and the host %q", text, got, u.Path+u.Opaque, u.Hostname())
		}
		parameters, _ := members["query"].(map[string]any)
		for name, want := range u.Query() {
			if got, ok := parameters[name].(string); len(want) == 1 && (!ok || got != want[0]) {
				t.Errorf("%q: parameter %q is %v, want %q", text, name, parameters[name], want)
			}
		}
	})
}

func BenchmarkURL(b *testing.B) {
	const text = "https://example.com:8443/a/b?q=1&name=x+y#top"
	benchmark(b, "parse.url", nil, text, func() {
		u, err := url.Parse(text)
		if err != nil || len(u.Query()) != 2 {
			b.Fatal(err)
		}
	})
}
