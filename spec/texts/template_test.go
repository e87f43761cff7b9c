package texts_test

import (
	"errors"
	"testing"
	"text/template/parse"

	"github.com/conduit-agent/conduit/spec/texts"
)

func TestTemplateSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"{{ if true }}": "unexpected EOF: end each if, with, range and define with {{ end }}",
		"\n{{ $$x }}": "bad character U+0024 '$': write one $ before the name of a variable; only settings of " +
			"pipeline files have $$",
		"{{ .Key }": `unexpected "}" in operand`,
	} {
		tree := parse.New("name")
		_, err := tree.Parse(text, "", "", map[string]*parse.Tree{})
		if err == nil {
			t.Fatal(text)
		}
		line, message, ok := texts.TemplateSyntax("name", err)
		if wantLine := map[bool]string{true: "2", false: "1"}[text[0] == '\n']; !ok || line != wantLine || message != want {
			t.Errorf("%s: got %q, %q, %v", text, line, message, ok)
		}
	}
	if _, _, ok := texts.TemplateSyntax("", errors.New("other")); ok {
		t.Error("another error has a line")
	}
}
