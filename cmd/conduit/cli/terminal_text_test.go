package cli

import (
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// The lines of an error become one line, with a mark after each line that ends without one.
func TestTerminalOneError(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "  a  b ": "a b", "a\n b\n\nc\n": "a; b; c", "wrong:\n\ta,\n\tb": "wrong: a, b",
		"a\x1b[2J\r\nb": `a\x1b[2J; b`,
	} {
		if got := terminal.OneError(text); got != want {
			t.Errorf("OneError(%q) is %q, want %q", text, got, want)
		}
	}
}
