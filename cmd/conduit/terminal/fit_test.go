package terminal_test

import (
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		page          string
		width, height int
		want          string
	}{
		{"abc\nde\n", 3, 2, "abc\nde\n"},
		{"abcd\nde\n", 3, 2, "ab…\nde\n"},
		{"a\nb\nc\nd\n", 20, 3, "a\nb\n… and 2 lines more\n"},
		{"a" + terminal.Red + "bcd" + terminal.Reset + "\n", 3, 9, "a" + terminal.Red + "b…" + terminal.Reset + "\n"},
		{terminal.Red + "abc" + terminal.Reset + "d\n", 4, 9, terminal.Red + "abc" + terminal.Reset + "d\n"},
		{"äöü\n", 3, 9, "äöü\n"},
	} {
		if got := string(terminal.Fit([]byte(c.page), c.width, c.height)); got != c.want {
			t.Errorf("%q in %d by %d: got %q, want %q", c.page, c.width, c.height, got, c.want)
		}
	}
}
