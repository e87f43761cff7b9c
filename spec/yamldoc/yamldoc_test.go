package yamldoc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec/yamldoc"
	"github.com/google/go-cmp/cmp"
)

// grammar has numbers called n and texts called t.
var grammar = yamldoc.Grammar{
	Typed: func(at string) bool { return strings.HasSuffix(at, "/n") },
	Text:  func(at string) bool { return strings.HasSuffix(at, "/t") },
}

type object = map[string]any

func TestValues(t *testing.T) {
	for text, want := range map[string]any{
		"a: 012":                         object{"a": "012"},
		"a: 1.10\nb: yes\nc: 2026-01-02": object{"a": "1.10", "b": "yes", "c": "2026-01-02"},
		"n: 12":                          object{"n": 12},
		"n: 012":                         object{"n": "012"},
		"a: !!binary aGVsbG8=":           object{"a": "hello"},
		"a: !!binary |\n  aGVs\n  bG8=":  object{"a": "hello"},
		"n: \"12\"":                      object{"n": "12"},
		"a: ~\nt: ~":                     object{"t": ""},
		"[x, [y], {z: 1}]":               []any{"x", []any{"y"}, object{"z": "1"}},
		"a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}": object{"a": object{"b": "1", "c": "2"},
			"d": object{"b": "3", "c": "2"}},
		"a: &x {b: 1}\nd: {<<: [*x, {c: 2}]}": object{"a": object{"b": "1"}, "d": object{"b": "1", "c": "2"}},
		"a: &x 1\nb: *x":                      object{"a": "1", "b": "1"},
	} {
		docs, faults := yamldoc.Read([]byte(text), grammar)
		if len(docs) != 1 || len(faults)+len(docs[0].Faults) > 0 {
			t.Errorf("%q: got %d documents, faults %v", text, len(docs), faults)
			continue
		}
		if diff := cmp.Diff(want, docs[0].Value); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// A text that is written as null is told from an empty one.
func TestNulls(t *testing.T) {
	docs, _ := yamldoc.Read([]byte("x: {t: ~}\na: ~\nb: {t: }\nc: {t: \"null\"}\nd: &d {t: null, f: {t: Null}}\n"+
		"e: {<<: *d}\ng: {<<: *d, t: 1}\n"), grammar)
	want := []string{"/d/f/t", "/d/t", "/e/f/t", "/e/t", "/g/f/t", "/x/t"}
	if diff := cmp.Diff(want, docs[0].Nulls); diff != "" {
		t.Error(diff)
	}
}

func TestPlaces(t *testing.T) {
	docs, _ := yamldoc.Read([]byte("# first\n---\na:\n  - b/c: 1\n---\nd: &x {e: 1}\nf: *x\n"), grammar)
	if len(docs) != 2 {
		t.Fatalf("got %d documents", len(docs))
	}
	at := func(line, column int) yamldoc.Mark { return yamldoc.Mark{Line: line, Column: column} }
	want := []map[string]yamldoc.Place{
		{"": {at(3, 1), at(3, 1)}, "/a": {at(3, 1), at(4, 3)}, "/a/0": {at(4, 5), at(4, 5)},
			"/a/0/b~1c": {at(4, 5), at(4, 10)}},
		{"": {at(6, 1), at(6, 1)}, "/d": {at(6, 1), at(6, 4)}, "/d/e": {at(6, 8), at(6, 11)},
			"/f": {at(7, 1), at(7, 4)}, "/f/e": {at(6, 8), at(6, 11)}},
	}
	for i := range docs {
		if diff := cmp.Diff(want[i], docs[i].Places); diff != "" {
			t.Error(diff)
		}
		if docs[i].Root != docs[i].Places[""].Value {
			t.Errorf("document %d starts at %v", i, docs[i].Root)
		}
	}
}

// A fault has its place, and leaves the other documents unchanged.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n---\nb: [\n---\nc: 3":   "4:1 0 ; {a} {c}",
		"a: 1\na: 2":                   "2:1 1 /a {a}",
		"? [x]\n: 1\nb: 2":             "1:1 2 {b}",
		"a: !x 1\nb: 2":                "1:4 2 /a {b}",
		"a: !!binary x\nb: 2":          "1:4 2 /a {b}",
		"a: !!binary /w==\nb: 2":       "1:4 2 /a {b}",
		"a:\n  <<: 5\nb: 2":            "2:7 2 /a {a,b}",
		"a: &x {b: !y 1}\nd: {<<: *x}": "1:11 2 /a/b 1:11 2 /d/b {a,d}",
		"a: &x [*x]":                   "1:4 0 too large",
	} {
		docs, faults := yamldoc.Read([]byte(text), grammar)
		var got []string
		for _, f := range faults {
			got = append(got, fmt.Sprintf("%d:%d %d %s;", f.Line, f.Column, f.Kind, f.Path))
		}
		for _, d := range docs {
			for _, f := range d.Faults {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d:%d %d %s", f.Line, f.Column, f.Kind, f.Path)))
			}
			fields, _ := d.Value.(object)
			var names []string
			for _, name := range []string{"a", "b", "c", "d"} {
				if _, ok := fields[name]; ok {
					names = append(names, name)
				}
			}
			if d.TooLarge {
				got = append(got, "too large")
				continue
			}
			got = append(got, "{"+strings.Join(names, ",")+"}")
		}
		if all := strings.Join(got, " "); all != want {
			t.Errorf("%q: got %q, want %q", text, all, want)
		}
	}
}

// A syntax error is reported where its cause is, wherever the library gives up.
func TestCauses(t *testing.T) {
	for text, want := range map[string]string{
		"a:\n  b: 1\n\tc: 2\nd: 3":                         "3:1 a tab",
		"a:\n\t- b: 1\n":                                   "2:1 a tab",
		"a: \"x\nb: 1\nc: 2\n":                             `1:4 the quote "`,
		"a: 'x\nb: 1\nc: 'y'\n":                            "1:4 the quote '",
		"a: {b: \"x, c: 1}\nd: 1\n":                        `1:8 the quote "`,
		"- \"x\n- y\n":                                     `1:3 the quote "`,
		"a: |\n  it is \"open\n  - 'here\nb: \"x\nc: 1":    `4:4 the quote "`,
		"a: it's\nb: [\n":                                  "3:1 the YAML is not valid here",
		"# \"x\na: 'it''s' # '\nb: \"\\\"\"\nc: [\nd: 1\n": "",
	} {
		_, faults := yamldoc.Read([]byte(text), grammar)
		if len(faults) != 1 {
			t.Errorf("%q: %v", text, faults)
			continue
		}
		place, rest, _ := strings.Cut(want, " ")
		if got := fmt.Sprintf("%d:%d", faults[0].Line, faults[0].Column); want != "" &&
			(got != place || !strings.Contains(faults[0].Message, rest)) {
			t.Errorf("%q: got %s %s, want %s", text, got, faults[0].Message, want)
		}
		if want == "" && strings.Contains(faults[0].Message, "quote that") {
			t.Errorf("%q: blames a quote: %s", text, faults[0].Message)
		}
	}
}
