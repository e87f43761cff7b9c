package record_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]any{
		"0": int64(0), "-0": math.Copysign(0, -1), "7": int64(7),
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"9223372036854775808": json.Number("9223372036854775808"), "1.5": 1.5, "1.50": 1.5,
		"0.1": 0.1, "1e3": 1000.0, "100000000000000000000": 1e20, "0e999": 0.0,
		"0.30000000000000004":                  0.30000000000000004,
		"0.1000000000000000055511151231257827": json.Number("0.1000000000000000055511151231257827"),
		"12345678901234567890.12":              json.Number("12345678901234567890.12"),
		"1234567.891234567891":                 json.Number("1234567.891234567891"),
		"1.7976931348623157e308":               math.MaxFloat64, "1e400": json.Number("1e400"),
		"-1e400": json.Number("-1e400"), "1e-400": json.Number("1e-400"),
		"5e-324": 5e-324, "4.9406564584124654e-324": json.Number("4.9406564584124654e-324"),
		"2.2250738585072014e-308":                                  2.2250738585072014e-308,
		"0.000000000000000000000000000000000000001234567890123456": 1.234567890123456e-39,
		"18446744073709551615":                                     json.Number("18446744073709551615"),
		"1e99999999999999999999":                                   json.Number("1e99999999999999999999"),
		"123456789012345000000000":                                 1.23456789012345e23,
	} {
		got := record.Number(text)
		f, isFloat := got.(float64)
		if wanted, ok := want.(float64); got != want || isFloat && ok && math.Signbit(f) != math.Signbit(wanted) {
			t.Errorf("%s: got %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

// A number that is not kept as text is printed unchanged.
func TestNumberIsPrintedAsItIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
	kept := 0
	for range 20_000 {
		text := strconv.Itoa(r.IntN(10)) + "." + digits(1+r.IntN(18))
		switch r.IntN(4) {
		case 0:
			text = strconv.Itoa(1+r.IntN(9)) + digits(r.IntN(22))
		case 1:
			text += "e" + strconv.Itoa(r.IntN(640)-320)
		case 2:
			text = strconv.FormatFloat(math.Float64frombits(r.Uint64()), 'e', -1, 64)
			if strings.ContainsAny(text, "NI") {
				continue
			}
		}
		v := record.Number(text)
		printed, err := record.AppendValue(nil, v)
		a, _ := new(big.Rat).SetString(text)
		b, ok := new(big.Rat).SetString(string(printed))
		if err != nil || !ok || a.Cmp(b) != 0 {
			t.Fatalf("%s is printed as %s (%T)", text, printed, v)
		}
		if _, ok := v.(json.Number); ok {
			kept++
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && strconv.FormatFloat(f, 'e', -1, 64) == text && v != f {
			if n, ok := v.(int64); !ok || float64(n) != f {
				t.Fatalf("%s, the shortest text of a float64, becomes a %T", text, v)
			}
		}
	}
	if kept < 1000 {
		t.Errorf("only %d were kept as text", kept)
	}
}

// Numbers that a double would change are transmitted with all digits, in every form of a record.
func TestNumbersAreExactOnTheWire(t *testing.T) {
	m := map[string]any{"i": int64(9007199254740993), "u": uint64(math.MaxUint64),
		"d": json.Number("12345678901234567890.12"), "exact": json.Number("12.50"),
		"huge": json.Number("1e400"), "no number": json.Number("x"), "l": []any{int64(-9007199254740993)},
		"small": int64(7)}
	want := map[string]any{"i": int64(9007199254740993), "u": json.Number("18446744073709551615"),
		"d": json.Number("12345678901234567890.12"), "exact": 12.5,
		"huge": json.Number("1e400"), "no number": "x", "l": []any{int64(-9007199254740993)}, "small": 7.0}
	r := record.Record{After: record.Structured(m)}
	b, err := record.AppendWire(nil, &r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := record.ParseWire(b)
	if err != nil {
		t.Fatal(err)
	}
	encoded := record.Record{After: got.After.Clone()}
	if n, text := encoded.Content(),
		len(`{"d":12345678901234567890.12,"exact":12.5,"huge":1e400,"i":9007199254740993,"l":[-9007199254740993],"no `+
			`number":"x","small":7,"u":18446744073709551615}`); n != text {
		t.Errorf("it has %d bytes, want %d", n, text)
	}
	if !got.After.Equal(record.Structured(want)) {
		m, _ := got.After.Structured()
		t.Errorf("got %#v", m)
	}
	text, err := record.AppendJSON(nil, &got)
	if err != nil || !strings.Contains(string(text),
		`"d":12345678901234567890.12,"exact":12.5,"huge":1e400,"i":9007199254740993`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Text that is not a number stays text, even if a process marks it as a number.
func TestMarkedTextThatIsNoNumber(t *testing.T) {
	for text, want := range map[string]any{"x": "x", "": "", "1 ": "1 ", "0x1": "0x1", "7": int64(7)} {
		value := "\x1a" + string(rune(len(text))) + text + "\x78\x01"
		member := "\x0a\x01v\x12" + string(rune(len(value))) + value
		object := "\x0a" + string(rune(len(member))) + member
		data := "\x12" + string(rune(len(object))) + object
		got, err := record.ParseWire([]byte("\x22" + string(rune(len(data))) + data))
		if err != nil || !got.Key.Equal(record.Structured(map[string]any{"v": want})) {
			t.Errorf("%q: %v, %v", text, got.Key, err)
		}
	}
}
