package position

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestConsequence(t *testing.T) {
	const unknown = "only the plugin can compare them."
	tests := []struct{ name, from, to, want string }{
		{"a number back", "6;3;x", "2", "From 2 it delivers again what is between (2 instead of 6)."},
		{"a number on", "6", "9;1", "From 9;1 it skips what is between (9 instead of 6)."},
		{"fields back", `{"file":"a","offset":120}`, `{"file":"a","offset":20}`, "it delivers again what is between (offset 20 instead of 120)."},
		{"fields both ways", `{"a":1,"b":2}`, `{"a":2,"b":1}`, unknown},
		{"fields that there were not", `{"a":1}`, `{"b":1}`, unknown},
		{"text", "abc", "abd", "From abd " + "it delivers again what is between if that is earlier, and skips it if it is later: " + unknown},
		{"bytes", "\x00\x01", "\x00\x02", "From base64 AAI= it delivers again"},
		{"bytes that are no text", "1", "\xff", "From base64 /w== "},
		{"from the beginning", "", "7", "From 7 it delivers again what is between if that is earlier, and skips it"},
		{"none", "6", "", "Without a position it begins as its settings say"},
		{"none of none", "", "", "so there is nothing to forget."},
		{"the same", "6", "6", "That is what it is to resume from."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := consequence(record.Position(tt.from), record.Position(tt.to)); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}
