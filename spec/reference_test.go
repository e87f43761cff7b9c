package spec_test

import (
	"context"
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
		"$HOME/x":              {{Kind: spec.EnvReference, Argument: "HOME"}},
		"${A}${_b1}":           {{Kind: spec.EnvReference, Argument: "A"}, {Kind: spec.EnvReference, Argument: "_b1"}},
		"${A:-}":               {{Kind: spec.EnvReference, Argument: "A", Optional: true}},
		"${A:?say what}":       {{Kind: spec.EnvReference, Argument: "A"}},
		"${file:/a b.txt}":     {{Kind: "file", Argument: "/a b.txt"}},
		"${credential:db.pw}":  {{Kind: "credential", Argument: "db.pw"}},
		"${file}":              {{Kind: spec.EnvReference, Argument: "file"}},
	} {
		if got, problem := spec.ReferenceKinds(nil).Scan(text); problem != "" || !slices.Equal(got, want) {
			t.Errorf("%q: %+v, problem %q, want %+v", text, got, problem, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"${A":               "is not closed with }; write $${",
		"${A:-${B}}":        "contains another reference",
		"${file:relative}":  "is not a reference",
		"${credential:a/b}": "is not a reference",
		"${1}":              "is not a reference",
		"${}":               "is not a reference",
		"${A-x}":            "write ${VAR}, ${VAR:-default}",
		"{{ $t := 1 }}": "$t is an environment variable: a variable of a template is written " +
			"$$t in a setting",
		"{{ range $i, $e := .Payload.After.l }}": "$i is an environment variable: a variable of",
		"{{ $$t := 1 }}{{ $t = 2 }}":             "is written $$t in a setting",
	} {
		if _, problem := unread().Scan(text); !strings.Contains(problem, want) {
			t.Errorf("%q: problem %q, want one with %q", text, problem, want)
		}
		if _, err := (spec.Lookup{Kinds: unread()}).Expand(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
		if _, ok := spec.LiteralText(text); ok {
			t.Errorf("%q is taken for literal", text)
		}
	}
}

// A variable that is not set may be meant as one of a template where it stands within {{ and }}.
func TestVariablesInTemplates(t *testing.T) {
	kinds := spec.ReferenceKinds{{Name: spec.EnvReference, Syntax: "${VAR}",
		Read: func(context.Context, string, spec.ReferenceAccess) (string, error) { return "", spec.ErrUnset }}}
	for text, want := range map[string]bool{"{{ $t }}": true, "{{ $$t := 1 }}{{ upper $t }}": true, "$t": false,
		"{{ .Key }}$t": false, "{{ .Key }} $$ $t {{ .Key }}": false, "{{ ${t} }}": false, "$t := 1": false} {
		_, err := spec.Lookup{Kinds: kinds}.Expand(text)
		if err == nil || strings.Contains(err.Error(), "written $$t in a setting") != want {
			t.Errorf("%s: %v", text, err)
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
	return spec.Lookup{Kinds: kinds(
		func(name string) (string, bool) {
			value, ok := map[string]string{"A": "1", "EMPTY": ""}[name]
			return value, ok
		},
		from(map[string]string{"/unix": "x\n", "/dos": "x\r\n", "/two": "x\n\n", "/cr": "x\r"}),
		from(map[string]string{"pw": "secret\n"}),
	), Found: found}
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
