package schema_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// fields returns a record with n fields of a type.
func fields(name string, n int, typ string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"name":"f%d","type":%s}`, i, typ))
	}
	return fmt.Sprintf(`{"type":"record","name":%q,"fields":[%s]}`, name, strings.Join(all, ","))
}

// ofField returns a record with a single field, v, of type typ.
func ofField(typ string) string {
	return `{"type":"record","name":"r","fields":[{"name":"v","type":` + typ + `}]}`
}

// nested returns n records around an int.
func nested(n int) string {
	typ := `"int"`
	for i := range n {
		typ = fmt.Sprintf(`{"type":"record","name":"n%d","fields":[{"name":"a","type":%s}]}`, i, typ)
	}
	return typ
}

// deep returns n nested objects.
func deep(n int) any {
	var v any = "x"
	for range n {
		v = map[string]any{"next": v}
	}
	return v
}

// Encoding and decoding take only a bounded multiple of the memory and time that the data would take, whatever the
// schema is. Without its limit, each case would take unbounded memory or time.
func TestHostileSchemas(t *testing.T) {
	decimal := func(typ string) string {
		return ofField(`{` + typ + `,"logicalType":"decimal","precision":10,"scale":2}`)
	}
	const nulls = "\xfe\xff\xff\xff\x0f" // 2^31-1 items
	for _, tt := range []struct {
		name, schema string
		object       map[string]any // to encode
		data         string         // to decode
		want         string         // text of the error; empty: any result
	}{
		{"a fixed of 10^14 bytes", decimal(`"type":"fixed","name":"f","size":99999999999999`),
			map[string]any{"v": "1.00"}, "x", ""},
		{"a fixed of 2^31 bytes", decimal(`"type":"fixed","name":"f","size":2147483647`), map[string]any{"v": "1.00"},
			"x", "digits"},
		{"a fixed of 2^31 bytes for a negative number", decimal(`"type":"fixed","name":"f","size":2147483647`),
			map[string]any{"v": "-1.00"}, "x", "digits"},
		{"a fixed without decimals", ofField(`{"type":"fixed","name":"f","size":2147483647}`),
			map[string]any{"v": []byte("x")}, "x", "bytes"},
		{"a great scale", ofField(`{"type":"bytes","logicalType":"decimal","precision":2000000000,"scale":2000000000}`),
			map[string]any{"v": "1"}, "\x02\x01", ""},
		{"a great scale in a small precision",
			ofField(`{"type":"bytes","logicalType":"decimal","precision":60000,"scale":60000}`),
			map[string]any{"v": "1"}, "\x02\x01", "scale"},
		{"a great exponent", decimal(`"type":"bytes"`), map[string]any{"v": "1e999999"}, "", "digits"},
		{"a small exponent", decimal(`"type":"bytes"`), map[string]any{"v": "1e-999999"}, "", "digits"},
		{"a binary exponent", decimal(`"type":"bytes"`), map[string]any{"v": "0x1p9999999"}, "", "digits"},
		{"a decimal of a megabyte", decimal(`"type":"bytes"`), nil, "\x80\x80\x80\x01" + strings.Repeat("\x55", 1<<20),
			"digits"},
		{"an object for a decimal", decimal(`"type":"bytes"`), map[string]any{"v": deep(50)}, "", "must be a decimal number"},
		{"an array of nulls", ofField(`{"type":"array","items":"null"}`), nil, nulls, "values"},
		{"an array of empty records", ofField(`{"type":"array","items":{"type":"record","name":"e","fields":[]}}`), nil,
			nulls, "values"},
		{"an array of an empty fixed", ofField(`{"type":"array","items":{"type":"fixed","name":"e","size":0}}`), nil,
			nulls, ""},
		{"a map of nulls", ofField(`{"type":"map","values":"null"}`), nil, nulls, ""},
		{"a negative count", ofField(`{"type":"array","items":"null"}`), nil,
			"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", ""},
		{"bytes of a great length", ofField(`"bytes"`), nil, nulls, "unexpected end of data"},
		{"records around each byte", ofField(`{"type":"array","items":` + nested(90) + `}`), nil,
			"\x80\x80\x04" + strings.Repeat("\x02", 32<<10), "values"},
		{"a record that contains itself", `{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]}`,
			nil, strings.Repeat("\x02", 10_000), "deep"},
		{"a record that is itself", `{"type":"record","name":"r","fields":[{"name":"next","type":"r"}]}`,
			map[string]any{"next": nil}, "x", ""},
		{"many possibilities", `{"type":"record","name":"a","fields":[{"name":"next","type":["int",` +
			`{"type":"record","name":"b","fields":[{"name":"next","type":["int","a","b"]}]},"a"]}]}`,
			deep(45).(map[string]any), "", "combinations"},
		{"a long default", `{"type":"record","name":"r","fields":[{"name":"a","type":"string","default":"` +
			strings.Repeat("x", 100_000) + `"}]}`, map[string]any{}, "", "defaults"},
		{"a default in each item",
			ofField(`{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"a","type":"string","default":"` +
				strings.Repeat("x", 1000) + `"}]}}`),
			map[string]any{"v": slicesOf(1000, map[string]any{})}, "", "defaults"},
		{"deep types", ofField(strings.Repeat(`{"type":"array","items":`, 20_000) + `"int"` + strings.Repeat("}",
			20_000)), map[string]any{"v": nil}, "x", ""},
		{"a deep union", ofField(strings.Repeat(`[`, 20_000) + strings.Repeat("]", 20_000)), map[string]any{"v": nil},
			"x", ""},
		{"types of types", ofField(strings.Repeat(`{"type":`, 20_000) + `"int"` + strings.Repeat("}", 20_000)),
			map[string]any{"v": nil}, "x", ""},
		{"a schema of 2 MiB", fields("r", 60_000, `"int"`), map[string]any{}, "x", "invalid schema"},
		{"many fields", fields("r", 25_000, `"null"`), map[string]any{}, "x", ""},
		{"many wrong fields", fields("r", 20_000, `"null"`), manyFields(50_000), "x", "not in the schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			codec, err := schema.Parse(tt.schema)
			if err == nil && tt.object != nil {
				var out []byte
				if out, err = codec.Append(nil, tt.object); len(out) > 100_000 {
					t.Errorf("it encodes %d bytes", len(out))
				}
			} else if err == nil {
				_, err = codec.Decode([]byte(tt.data))
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %.200v, want %q", err, tt.want)
			}
			if codec != nil && tt.data != "" {
				_, _ = codec.Decode([]byte(tt.data))
			}
		})
	}
}

func slicesOf(n int, v any) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func manyFields(n int) map[string]any {
	m := make(map[string]any, n)
	for i := range n {
		m[fmt.Sprintf("f%d", i)] = nil
	}
	return m
}

// A decoded record takes a bounded amount of memory, however small its values are.
func TestDecodedMemory(t *testing.T) {
	codec, err := schema.Parse(
		ofField(`{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"a","type":"boolean"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	data := func(n int) []byte {
		count := []byte{byte(n<<1)&0x7f | 0x80, byte(n>>6)&0x7f | 0x80, byte(n>>13)&0x7f | 0x80, byte(n >> 20)}
		return append(append(count, bytes.Repeat([]byte{1}, n)...), 0)
	}
	if _, err := codec.Decode(data(1000)); err != nil {
		t.Errorf("a thousand items: %v", err)
	}
	if _, err := codec.Decode(data(1_000_000)); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a million items: got %v", err)
	}
}
