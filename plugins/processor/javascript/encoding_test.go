package javascript_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Expressions and their results. A result that begins with TypeError or RangeError is an error. raw is the raw payload
// of the record, "Zoë".
var encodings = map[string]string{
	`raw.text()`:                                   "Zoë",
	`RawData("ü€😀").text()`:                        "ü€😀",
	`RawData([]).text().length`:                    "0",
	`RawData(new Uint8Array([0xc3, 0xbc])).text()`: "ü",
	`RawData(raw).text()`:                          "Zoë",
	`JSON.stringify(raw)`:                          "[90,111,195,171]",
	`Array.isArray(raw) + " " + raw.map(x => x + 1).length + " " + (raw instanceof Array)`: "true 4 true",
	`rec.Position.text()`: "1",
	`(() => { let d = RawData("x"); d[0] = 0xff; return d.text() })()`: "TypeError: it is not utf-8: byte 1 is 0xff",
	`raw.text.call([1])`:                                   "TypeError: text is a method of raw data",
	`new TextDecoder().decode(raw)`:                        "Zoë",
	`new TextDecoder().decode(new Uint8Array(raw))`:        "Zoë",
	`new TextDecoder().decode(new Uint8Array(raw).buffer)`: "Zoë",
	`new TextDecoder().decode(new Uint8Array([1, 0x61, 0x62, 2]).subarray(1, ` +
		`3))`: "ab",
	`new TextDecoder().decode(new DataView(new Uint8Array([1, 0x61, 0x62, 2]).buffer, 1, ` +
		`2))`: "ab",
	`new TextDecoder("utf-16le").decode(new Uint16Array([0x61, 0xd83d, 0xde00]))`:         "a😀",
	`new TextDecoder("utf-16le").decode(new Uint16Array([0x60, 0x61, 0x62]).subarray(1))`: "ab",
	`new TextDecoder("utf-16be").decode(new Uint8Array([0, 0x61]))`:                       "a",
	`new TextDecoder("latin1").decode(new Uint8Array([0xeb, 0x80]))`:                      "ë€",
	`new TextDecoder("iso-8859-1").encoding`:                                              "windows-1252",
	`new TextDecoder().encoding + new TextDecoder().fatal + ` +
		`new TextDecoder("utf8", {ignoreBOM: true}).ignoreBOM`: "utf-8falsetrue",
	`new TextDecoder().decode(new Uint8Array([0x61, 0xff, 0x62]))`: "a\ufffdb",
	`new TextDecoder("utf-8", {fatal: true}).decode(new Uint8Array([0x61, ` +
		`0xff]))`: "TypeError: it is not utf-8: byte 2 is 0xff",
	`new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))`:                                  "a",
	`new TextDecoder("utf-8", {ignoreBOM: true}).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])).length`: "2",
	`new TextDecoder("utf-16").decode(new Uint8Array([0xff, 0xfe, 0x61, 0]))`:                             "a",
	`(() => { let d = new TextDecoder(), t = ""; for (const b of [0xef, 0xbb, 0xbf, 0xf0, 0x9f, 0x98, ` +
		`0x80]) t += d.decode(new Uint8Array([b]), {stream: true}); return t + d.decode() })()`: "😀",
	`(() => { let d = new TextDecoder(); d.decode(new Uint8Array([0xe2, 0x82]), {stream: true}); ` +
		`return d.decode() + d.decode(new Uint8Array([0x61])) })()`: "\ufffda",
	`new TextDecoder().decode()`:       "",
	`new TextDecoder().decode("text")`: "TypeError: TextDecoder.decode wants",
	`new TextDecoder().decode([1, 2])`: "TypeError: TextDecoder.decode wants",
	`new TextDecoder().decode({buffer: new ArrayBuffer(2), byteOffset: 1, ` +
		`byteLength: 9})`: "TypeError: TextDecoder.decode wants",
	`new TextDecoder("shift_jis")`:                     `RangeError: the encoding "shift_jis" is unknown`,
	`TextDecoder.prototype.decode.call({})`:            "TypeError: this is no TextDecoder",
	`String(new TextDecoder())`:                        "[object TextDecoder]",
	`new TextDecoder() instanceof TextDecoder`:         "true",
	`new TextEncoder().encoding`:                       "utf-8",
	`new TextEncoder().encode("ü€😀").join()`:           "195,188,226,130,172,240,159,152,128",
	`new TextEncoder().encode() instanceof Uint8Array`: "true",
	`new TextEncoder().encode("\ud83d").join()`:        "239,191,189",
	`(() => { const to = new Uint8Array(4), r = new TextEncoder().encodeInto("a😀b", to); ` +
		`return r.read + " " + r.written + " " + to })()`: "1 1 97,0,0,0",
	`(() => { const to = new Uint8Array(6), r = new TextEncoder().encodeInto("a😀b", to.subarray(1)); ` +
		`return r.read + " " + r.written + " " + to })()`: "3 5 0,97,240,159,152,128",
	`new TextEncoder().encodeInto("a", [])`:                     "TypeError: TextEncoder.encodeInto wants",
	`new TextDecoder().decode(new TextEncoder().encode("Zoë"))`: "Zoë",
	`(class D extends TextDecoder { twice(b) { return this.decode(b) + ` +
		`this.decode(b) } }, new (class D extends TextDecoder {})().decode(raw))`: "Zoë",
}

func TestEncodings(t *testing.T) {
	evaluate(t, "raw = rec.Payload.After", encodings, func() record.Record {
		return record.Record{Position: record.Position("1"), After: record.Raw([]byte("Zoë"))}
	})
}

// evaluate evaluates expressions in one script, after a declaration, and compares their texts with the expected
// results. An expected result that contains Error is compared with the error.
func evaluate(t *testing.T, declaration string, expressions map[string]string, newRecord func() record.Record) {
	t.Helper()
	all := slices.Sorted(maps.Keys(expressions))
	script := "const all = ["
	for _, expression := range all {
		script += "rec => { const " + declaration + "; return " + expression + " },\n"
	}
	p := open(t,
		map[string]string{"timeout": "10s",
			"script": script + "]\nfunction process(rec) { rec.Key = String(all[rec.Metadata.i](rec)); return rec }"},
		nil)
	for i, expression := range all {
		r := newRecord()
		r.Metadata = record.Metadata{{Key: "i", Value: strconv.Itoa(i)}}
		f, r := feed(t, p, r)
		got, _ := r.Key.Raw()
		want := expressions[expression]
		failed := strings.Contains(want, "Error")
		if failed && (f.Err == nil || !strings.Contains(f.Err.Error(),
			want)) || !failed && (f.Err != nil || string(got) != want) {
			t.Errorf("%s: %q, %v; want %s", expression, got, f.Err, want)
		}
	}
}

// The output of encode can be the raw data of a record.
func TestEncodedPayload(t *testing.T) {
	f, r := process(t, `function process(rec) { rec.Key = new TextEncoder().encode("ü"); return rec }`, record.Record{})
	if b, ok := r.Key.Raw(); f.Err != nil || !ok || string(b) != "ü" {
		t.Errorf("%v, %q", f.Err, b)
	}
}
