package parse_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const access = `^(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+) [^"]*" ` +
	`(?P<status>\d+) (?:(?P<bytes>\d+)|-)$`

func TestGroups(t *testing.T) {
	settings := map[string]string{"pattern": access, "types": "status:int,bytes:int"}
	got, err := parseValue(t, "parse.regex", settings, `::1 - bob [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 -`)
	want := map[string]any{"host": "::1", "user": "bob", "time": "10/Oct/2000:13:55:36 -0700", "method": "GET",
		"path": "/", "status": int64(200)}
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := parseValue(t, "parse.regex", settings, "nothing"); err == nil {
		t.Errorf("the result is %v, want an error", got)
	}
	wantRefused(t, "parse.regex", map[string]map[string]string{"pattern": {"pattern": "(a)"},
		"types": {"pattern": "(?P<a>a)", "types": "b:int"}})
	wantRefused(t, "parse.regex", map[string]map[string]string{"pattern": {"pattern": "(?P<a>"}})
}

// FuzzRegex compares the groups with those of the standard library.
func FuzzRegex(f *testing.F) {
	for _, text := range []string{"", "a=1", "ab=\xff\n", "=", "b=1=2"} {
		f.Add(text)
	}
	const pattern = `(?P<key>\w*)=(?:(?P<number>\d+)|(?P<rest>.*))`
	expression := regexp.MustCompile(pattern)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseValue(t, "parse.regex", map[string]string{"pattern": pattern}, text)
		groups := expression.FindStringSubmatch(text)
		if (groups == nil) != (err != nil) {
			t.Fatalf("%q: the error is %v, the groups are %q", text, err, groups)
		}
		members, _ := got.(map[string]any)
		for i, name := range expression.SubexpNames() {
			if v, ok := members[name]; groups != nil && name != "" && (ok && v != groups[i] || !ok && groups[i] != "") {
				t.Errorf("%q: %s is %v, want %q", text, name, v, groups[i])
			}
		}
	})
}

func BenchmarkRegex(b *testing.B) {
	const text = `127.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326`
	expression := regexp.MustCompile(access)
	benchmark(b, "parse.regex", map[string]string{"pattern": access}, text, func() {
		if expression.FindStringSubmatch(text) == nil {
			b.Fatal("no match")
		}
	})
}
