package spec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

func TestTextHidesSecrets(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"block":  {"settings:\n  password: hunter2\n  path: /a\n", "settings:\n  password: ***\n  path: /a\n"},
		"quoted": {"  \"password\": \"hun\\\"ter2\" # mine\n", "  \"password\": *** # mine\n"},
		"single": {"password: 'it''s'\nx: y\n", "password: ***\nx: y\n"},
		"flow": {"settings: {path: /a, password: hunter2, rate: 1}\n",
			"settings: {path: /a, password: ***, rate: 1}\n"},
		"flow quoted": {`settings: {"password": "hun,ter2", rate: 1}`, `settings: {"password": ***, rate: 1}`},
		"comma":       {"password: hunter2,and,more\nrate: 1\n", "password: ***\nrate: 1\n"},
		"url":         {"url: postgres://u:pw@h/db\n", "url: ***\n"},
		"in value":    {"dsn: host=h password=hunter2 x\n", "dsn: ***\n"},
		"reference":   {"password: ${PASSWORD}\n", "password: ${PASSWORD}\n"},
		"block text": {"  secret: |\n    line one\n\n    line two\n  path: /a\n",
			"  secret: |\n    ***\n\n    ***\n  path: /a\n"},
		"other text": {"  script: |\n    line one\n  path: /a\n", "  script: |\n    line one\n  path: /a\n"},
		"two lines":  {"password: \"hun\n  ter2\"\npath: /a\n", "password: ***\n\npath: /a\n"},
		"json":       {`{"password": "hunter2", "path": "/a"}`, `{"password": ***, "path": "/a"}`},
		"dotted":     {"  auth.token: abc\n", "  auth.token: ***\n"},
		"broken":     {"settings: {password: hunter2\n  type: [\n", "settings: {password: ***\n  type: [\n"},
		"none":       {"version: \"2.2\"\npipelines: []\n", "version: \"2.2\"\npipelines: []\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := spec.RedactText(test.text); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// For any text, Text keeps line breaks in place, and terminates.
func FuzzText(f *testing.F) {
	f.Add("a: |\n  b\npassword: 'x\n")
	f.Add("password: >-\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := spec.RedactText(text); strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// The running time grows with the length of the text, not with its square, even if the whole text is a single line.
func TestTextOfOneLine(t *testing.T) {
	const size, more, tick = 1 << 13, 8, 4 * time.Millisecond // tick: the coarsest resolution of CPU time
	for _, repeated := range []string{`"a": `, `a: b, `, `{a: b}, `, `a: [`} {
		took := func(size int) time.Duration {
			text := strings.Repeat(repeated, size/len(repeated))
			var got string
			took := wait.CPUTime(func() { got = spec.RedactText(text) })
			if got != text {
				t.Errorf("%s: it was changed", repeated)
			}
			return took
		}
		few, many := max(took(size), took(size), took(size)), took(more*size)
		if many > 3*more*(few+tick) { // quadratic time would be 8 times as much
			t.Errorf("%s: it took %v, and %v for %d times the text", repeated, few, many, more)
		}
	}
	if got, want := spec.RedactText("a: b, token: c, d\n"), "a: ***\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
