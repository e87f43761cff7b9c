package cli

import (
	"bytes"
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

func TestTerminalTable(t *testing.T) {
	var tb terminal.Table
	tb.Add("NAME", "PHASE", "ERROR")
	tb.Add("ü", terminal.Colored("up", "<"), "")
	tb.Add("longer", "", "two\nlines\x1b[2J")
	var out bytes.Buffer
	if err := tb.Write(&out, func(text, color string) string { return color + text }); err != nil {
		t.Fatal(err)
	}
	if want := "NAME    PHASE  ERROR\nü       <up\nlonger         two lines\\x1b[2J\n"; out.String() != want {
		t.Errorf("got\n%q, want\n%q", out.String(), want)
	}
}
