package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Numbers that a float64 would change are printed and compared with all digits. Integer functions use their integer
// part, or fail; they never use 0 instead.
func TestNumbersWithAllDigits(t *testing.T) {
	r := &record.Record{Key: record.Structured(map[string]any{"d": json.Number("12345678901234567890.12"),
		"e": json.Number("1234567.891234567891"),
		"u": json.Number("18446744073709551615"), "i": int64(9007199254740993), "l": []any{json.Number("1e400")}})}
	for text, want := range map[string]string{
		`{{ .Key.d }} {{ .Key.u }} {{ .Key.l }} ` +
			`{{ toJson .Key.d }}`: "12345678901234567890.12 18446744073709551615 [1e400] 12345678901234567890.12",
		`{{ printf "%s %v" .Key.d .Key.u }}`:                            "12345678901234567890.12 18446744073709551615",
		`{{ gt .Key.d 12345678901234567000.0 }} {{ lt .Key.d .Key.u }}`: "true true",
		`{{ eq .Key.u 18446744073709551615.0 }} {{ eq .Key.d .Key.d }}`: "false true",
		`{{ add .Key.e 1 }} {{ add 1 .Key.e }} {{ int .Key.e }} {{ max 1 .Key.e }} ` +
			`{{ sub .Key.e 1 }}`: "1234568 1234568 1234567 1234567 1234566",
		`{{ add .Key.i 1 }}`:  "9007199254740994",
		`{{ add .Key.d 1 }}`:  "error cannot compute with 12345678901234567890.12",
		`{{ int .Key.u }}`:    "error no integer of 64 bits",
		`{{ mulf .Key.e 2 }}`: "2469135.7824691357",
		`{{ (fromJson "{\"a\":12345678901234567890.12}").a }}`:              "12345678901234567890.12",
		`{{ fromJson "[1,2.5,18446744073709551615]" }}|{{ fromJson "x" }}|`: "[1,2.5,18446744073709551615]||",
		`{{ mustFromJson "1,\"v\":2" }}`:                                    "error invalid character",
	} {
		got, err := run(text, false, r)
		if reason, fails := strings.CutPrefix(want, "error "); fails {
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %q, %v; want the error %q", text, got, err, reason)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}
