package cli

import (
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

func TestTerminalFit(t *testing.T) {
	for _, c := range []struct {
		page          string
		width, height int
		want          string
	}{
		{"abc\nde\n", 3, 2, "abc\nde\n"},
		{"abcd\nde\n", 3, 2, "ab…\nde\n"},
		{"a\nb\nc\nd\n", 20, 3, "a\nb\n… and 2 lines more\n"},
		{"a" + terminal.Paint("bcd", terminal.Red) + "\n", 3, 9, "a" + terminal.Paint("b…", terminal.Red) + "\n"},
		{terminal.Paint("abc", terminal.Red) + "d\n", 4, 9, terminal.Paint("abc", terminal.Red) + "d\n"},
		{"a" + terminal.Red + "\n", 3, 9, "a\x1b…\n"}, // data
		{"äöü\n", 3, 9, "äöü\n"},
	} {
		if got := string(terminal.Fit([]byte(c.page), c.width, c.height)); got != c.want {
			t.Errorf("%q in %d by %d: got %q, want %q", c.page, c.width, c.height, got, c.want)
		}
	}
}
