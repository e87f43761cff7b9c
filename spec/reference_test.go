package spec_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/spec"
)

func TestScan(t *testing.T) {
	for text, want := range map[string][]spec.Reference{
		"":                     nil,
		"plain":                nil,
		"5 $ and $$HOME $${A}": nil,
		"$HOME/x":              {{Kind: spec.EnvReference, Name: "HOME"}},
		"${A}${_b1}":           {{Kind: spec.EnvReference, Name: "A"}, {Kind: spec.EnvReference, Name: "_b1"}},
		"${A:-}":               {{Kind: spec.EnvReference, Name: "A", Optional: true}},
		"${A:?say what}":       {{Kind: spec.EnvReference, Name: "A"}},
		"${file:/a b.txt}":     {{Kind: spec.FileReference, Name: "/a b.txt"}},
		"${credential:db.pw}":  {{Kind: spec.CredentialReference, Name: "db.pw"}},
		"${file}":              {{Kind: spec.EnvReference, Name: "file"}},
	} {
		if got, problem := spec.ScanReferences(text); problem != "" || !slices.Equal(got, want) {
			t.Errorf("%q: %+v, problem %q, want %+v", text, got, problem, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"${A":               "is not closed with }; write $${",
		"${A:-${B}}":        "contains another one",
		"${file:relative}":  "must be absolute",
		"${credential:a/b}": "is not a reference",
		"${1}":              "is not a reference",
		"${}":               "is not a reference",
		"${A-x}":            "write ${VAR}, ${VAR:-default}",
	} {
		if _, problem := spec.ScanReferences(text); !strings.Contains(problem, want) {
			t.Errorf("%q: problem %q, want one with %q", text, problem, want)
		}
		if _, err := (spec.Lookup{}).Expand(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
		if _, ok := spec.LiteralText(text); ok {
			t.Errorf("%q is taken for literal", text)
		}
	}
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "$$5": "$5", "$$${": "", "5 $": "5 $", "$${A}": "${A}",
		"$A": "", "$$$$": "$$"} {
		got, ok := spec.LiteralText(text)
		if ok != (want != "") || got != want {
			t.Errorf("%q stands for %q, %v, want %q", text, got, ok, want)
		}
	}
}

// Any text can be escaped to stand for itself, and a text that stands for itself already stays unchanged.
func TestEscapedTextIsLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("${}:-?Aa/ "))).Draw(t, "text")
		escaped := spec.EscapeReferences(text)
		if got, ok := spec.LiteralText(escaped); !ok || got != text {
			t.Fatalf("%q stands for %q, %v", escaped, got, ok)
		}
		if got, ok := spec.LiteralText(text); ok && got == text && escaped != text {
			t.Fatalf("%q is escaped without need", text)
		}
	})
}

var errGone = errors.New("gone")

func lookup(found func(declared, value string)) spec.Lookup {
	from := func(all map[string]string) func(string) (string, error) {
		return func(name string) (string, error) {
			if value, ok := all[name]; ok {
				return value, nil
			}
			return "", errGone
		}
	}
	return spec.Lookup{
		Env: func(name string) (string, bool) {
			value, ok := map[string]string{"A": "1", "EMPTY": ""}[name]
			return value, ok
		},
		File:       from(map[string]string{"/unix": "x\n", "/dos": "x\r\n", "/two": "x\n\n", "/cr": "x\r"}),
		Credential: from(map[string]string{"pw": "secret\n"}),
		Found:      found,
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"a$A${A}b$$A":      "a11b$A",
		"[${EMPTY}]":       "[]",
		"${EMPTY:-x}":      "x",
		"${NONE:-x y}":     "x y",
		"${NONE:-}":        "",
		"${A:-x}":          "1",
		"${A:?no}":         "1",
		"${file:/unix}":    "x",
		"${file:/dos}":     "x",
		"${file:/two}":     "x\n",
		"${file:/cr}":      "x\r",
		"${credential:pw}": "secret",
	} {
		if got, err := lookup(nil).Expand(text); err != nil || got != want {
			t.Errorf("%q is %q, error %v, want %q", text, got, err, want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	for text, want := range map[string]string{
		"${NONE}":            "environment variable NONE is not set: set it for the agent",
		"${NONE:?ask Ann}":   "environment variable NONE is not set: ask Ann",
		"${EMPTY:?ask Ann}":  "environment variable EMPTY is not set: ask Ann",
		"${file:/none}":      "cannot read file /none: gone",
		"${credential:none}": "cannot read credential none: gone",
	} {
		if _, err := lookup(nil).Expand(text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(want, "gone") != errors.Is(err, errGone) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"$A": "environment variable A", "${file:/a}": "file /a",
		"${credential:a}": "credential a"} {
		if _, err := (spec.Lookup{}).Expand(text); err == nil || err.Error() != want+" cannot be used here" {
			t.Errorf("%q where its kind is refused: %v", text, err)
		}
	}
}

// Found gets the value of every reference and of the whole text around references, and no other text.
func TestFound(t *testing.T) {
	var got []string
	l := lookup(func(declared, value string) { got = append(got, declared+"="+value) })
	for _, text := range []string{"plain $$", "u:${A}@${file:/unix}"} {
		if _, err := l.Expand(text); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"${A}=1", "${file:/unix}=x", "u:${A}@${file:/unix}=u:1@x"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A variable that is not allowed is not read, with a default or without.
func TestAllowEnv(t *testing.T) {
	l := lookup(nil)
	l.AllowEnv = func(name string) error {
		if name == "A" {
			return errGone
		}
		return nil
	}
	for _, text := range []string{"$A", "${A}", "x${A:-y}", "${A:?z}"} {
		if got, err := l.Expand(text); !errors.Is(err, errGone) {
			t.Errorf("%q is %q, error %v", text, got, err)
		}
	}
	if got, err := l.Expand("${NONE:-y}"); got != "y" || err != nil {
		t.Errorf("another variable is %q, error %v", got, err)
	}
}
