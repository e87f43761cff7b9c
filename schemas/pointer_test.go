package schemas_test

import (
	"encoding/json"
	"testing"

	"github.com/conduit-agent/conduit/schemas"
)

// The document and the pointers are from RFC 6901, section 5.
func TestAtPointer(t *testing.T) {
	var doc any
	text := `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, ` +
		`"m~n": 8}`
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]any{
		"/foo/0": "bar", "/foo/1": "baz", "/": 0.0, "/a~1b": 1.0, "/c%d": 2.0, "/e^f": 3.0, "/g|h": 4.0,
		"/i\\j": 5.0, "/k\"l": 6.0, "/ ": 7.0, "/m~0n": 8.0,
		"/foo/2": nil, "/foo/-1": nil, "/foo/x": nil, "/bar": nil, "/foo/0/x": nil,
	} {
		if got := schemas.AtPointer(doc, at); got != want {
			t.Errorf("AtPointer(%q) = %v, want %v", at, got, want)
		}
	}
	if got, ok := schemas.AtPointer(doc, "").(map[string]any); !ok || len(got) != 10 {
		t.Errorf("the empty pointer leads to %v, want the document", got)
	}
}

func TestEscapePointer(t *testing.T) {
	for name, token := range map[string]string{"a/b": "a~1b", "m~n": "m~0n", "~1": "~01", "~/": "~0~1",
		"plain": "plain", "": ""} {
		if got := schemas.EscapePointer(name); got != token {
			t.Errorf("EscapePointer(%q) = %q, want %q", name, got, token)
		}
		if got := schemas.UnescapePointer(token); got != name {
			t.Errorf("UnescapePointer(%q) = %q, want %q", token, got, name)
		}
	}
}
