package texts_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/spec/texts"
)

// TestTruncate cuts texts at every position, in characters from one to four bytes.
func TestTruncate(t *testing.T) {
	t.Parallel()
	for _, char := range []string{"a", "ä", "€", "😀"} {
		for most := 64; most < 80; most++ {
			text := strings.Repeat(char, 100)
			got := texts.Truncate(text, most)
			begin, rest, cut := strings.Cut(got, "… (")
			left := 0
			if n, err := fmt.Sscanf(rest, "%d more bytes)", &left); n != 1 || err != nil || !cut {
				t.Fatalf("%q does not say how much is left out", got)
			}
			if len(got) > most || len(got) < most-4-1 || !utf8.ValidString(got) || !strings.HasPrefix(text, begin) ||
				len(begin)+left != len(text) {
				t.Errorf("%d bytes of %d %q: %q", most, len(text), char, got)
			}
		}
	}
	for _, text := range []string{"", "short", strings.Repeat("b", 64)} {
		if got := texts.Truncate(text, 64); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := texts.Truncate(strings.Repeat("\xbf", 100), 64); len(got) > 64 { // without the beginning of a character
		t.Errorf("%d bytes are left", len(got))
	}
}

// TestCutAgain cuts a text that was cut before; the count refers to the original text.
func TestCutAgain(t *testing.T) {
	t.Parallel()
	text := texts.TruncateError(strings.Repeat("x", 20_000_000))
	if len(text) != texts.MaxError {
		t.Fatalf("it has %d bytes", len(text))
	}
	again := texts.TruncateError("cannot open source: " + text)
	begin, rest, _ := strings.Cut(again, "… (")
	if want := fmt.Sprintf("%d more bytes)", 20_000_000-len(begin)+len("cannot open source: ")); rest != want ||
		len(again) > texts.MaxError {
		t.Errorf("it ends with %q, want %q", rest, want)
	}
}
