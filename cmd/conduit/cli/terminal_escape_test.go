package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// hiddenRunes has one character of each kind that a terminal does not show as it is.
var hiddenRunes = []rune{
	0, 1, '\a', '\b', '\v', 0x1b, 0x7f, 0x80, 0x85, 0x9b, 0xad, 0x34f, 0x61c, 0x115f, 0x180e, 0x200b, 0x200c, 0x200d,
	0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2061, 0x2066, 0x2067, 0x2068,
	0x2069, 0x206a, 0x3164, 0xfeff, 0xfff9, 0xe0001, 0xe0041, 0xe007f, 0xf0000,
}

// shownTexts are texts that a terminal shows as they are, so Clean does not change them.
var shownTexts = []string{"", "plain", "two\nlines", "größer", "日本語", "Ω≠∞", "🙂", "e\u0301", "\u00a0", "\ufffd"}

func TestTerminalClean(t *testing.T) {
	for _, s := range shownTexts {
		if got := terminal.Clean(s); got != s {
			t.Errorf("Clean(%q) is %q", s, got)
		}
	}
	for _, r := range hiddenRunes {
		got := terminal.Clean("a" + string(r) + "b")
		if strings.ContainsRune(got, r) || !strings.HasPrefix(got, `a\`) || !strings.HasSuffix(got, "b") {
			t.Errorf("%U: %q", r, got)
		}
	}
	for in, want := range map[string]string{"a\x1b[2Jb": `a\x1b[2Jb`, "\u202eabc": `\u202eabc`, "a\tb\r\n": "a b \n",
		"\xff\xc3": `\xff\xc3`, "\U000e0041": `\udb40\udc41`} {
		if got := terminal.Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
}

// Escaped JSON has the same meaning.
func TestTerminalEscapeJSON(t *testing.T) {
	for _, s := range append(shownTexts, string(hiddenRunes)) {
		b, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		escaped := terminal.EscapeJSON(b)
		var got map[string]string
		if err := json.Unmarshal(escaped, &got); err != nil || got[s] != s {
			t.Errorf("%q became %q, %v", s, escaped, err)
		}
		if i := bytes.IndexFunc(escaped, func(r rune) bool {
			return strings.ContainsRune(string(hiddenRunes), r)
		}); i >= 0 {
			t.Errorf("%q is left in %q", escaped[i:], escaped)
		}
	}
}

// A Guard passes visible characters and the sequences that commands mark, but no sequences of data, however the text is
// split into writes.
func TestTerminalGuard(t *testing.T) {
	text := strings.Join(shownTexts, "|") + "\t" + string(hiddenRunes) + "\xff\xf0\x9f"
	escaped := strings.Join(shownTexts, "|") + "\t" + terminal.Clean(string(hiddenRunes)) + `\xff\xf0\x9f`
	for size := 1; size < 9; size++ {
		var out bytes.Buffer
		g := terminal.NewGuard(&out)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := g.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := g.Flush(); err != nil || out.String() != escaped {
			t.Errorf("in pieces of %d: got\n%q, %v, want\n%q", size, out.String(), err, escaped)
		}
	}
	var out bytes.Buffer
	_, _ = fmt.Fprint(terminal.NewGuard(&out), terminal.Steer(terminal.ClearAll)+terminal.Paint("red", terminal.Red)+
		"\x1b]0;title\a\x1b[8m"+terminal.ClearAll+terminal.Home+terminal.Red+"data"+terminal.Reset)
	if want := terminal.ClearAll + terminal.Red + "red" + terminal.Reset +
		`\x1b]0;title\x07\x1b[8m\x1b[2J\x1b[H\x1b[31mdata\x1b[0m`; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
