package processor_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// moreDifferentials are the cases for expressions, scripts, masks and schemas.
func moreDifferentials(t *testing.T) []differential {
	path := []string{"c", "a"}
	registry := &schema.Memory{}
	if _, err := registry.Create(context.Background(), "s", schema.TypeAvro, avroText); err != nil {
		t.Fatal(err)
	}
	return []differential{
		{name: "mask patterns", plugin: "field.mask",
			settings: map[string]string{"patterns": "card,email,ssn,iban,ipv4,phone"}, random: randomTexts,
			reference: plainMask},
		{name: "mask by hash", plugin: "field.mask", settings: map[string]string{"fields": ".Payload.After.c.a",
			"method": "hash", "key": "k"}, reference: onValue(path, func(v any) (any, error) {
			h := hmac.New(sha256.New, []byte("k"))
			h.Write([]byte(plainText(v, false)))
			return hex.EncodeToString(h.Sum(nil)), nil
		})},
		{name: "mask but the end", plugin: "field.mask", settings: map[string]string{"fields": ".Payload.After.c.a",
			"method": "truncate", "keep": "2"}, reference: onValue(path, func(v any) (any, error) {
			text := []rune(plainText(v, false))
			for i := range text {
				if len(text) <= 4 || i < len(text)-2 {
					text[i] = '*'
				}
			}
			return string(text), nil
		})},
		{name: "expr.map", plugin: "expr.map",
			settings: map[string]string{"mapping": ".Payload.After.c.a = metadata.m == \"1\" ? operation + \"!\" : " +
				"\"none\""}, reference: func(r record.Record) ([]record.Record, error) {
				if r.Metadata.Get("m") == "1" {
					return plainSet(r.Operation.String() + "!")(r)
				}
				return plainSet("none")(r)
			}},
		{name: "expr.filter", plugin: "expr.filter",
			settings: map[string]string{"expression": `metadata.m == "1" and operation in ["create", "delete"]`},
			reference: func(r record.Record) ([]record.Record, error) {
				if r.Metadata.Get("m") == "1" &&
					(r.Operation == record.OperationCreate || r.Operation == record.OperationDelete) {
					return []record.Record{r}, nil
				}
				return nil, nil
			}},
		{name: "javascript", plugin: "custom.javascript",
			settings: map[string]string{"script": `function process(r) { if (r.Metadata.m === "1") return null; ` +
				`r.Metadata.seen = r.Operation; return r }`}, reference: func(r record.Record) ([]record.Record,
				error) {
				if r.Metadata.Get("m") == "1" {
					return nil, nil
				}
				r.Metadata.Set("seen", r.Operation.String())
				return []record.Record{r}, nil
			}},
		{name: "sample by rate", plugin: "sample", settings: map[string]string{"rate": "3"}, reference: plainRate(3)},
		{name: "sample by key", plugin: "sample", settings: map[string]string{"ratio": "0.4", "key": ".Metadata.m"},
			reference: plainShare(0.4)},
		{name: "enrich.file", plugin: "enrich.file", settings: map[string]string{"path": "testdata/countries.csv",
			"key": ".Metadata.code", "target": ".Payload.After.c", "missing": "filter"},
			random: randomCountry, reference: plainCountry},
		{name: "avro.encode", plugin: "avro.encode", schemas: registry, random: randomAvro, reference: plainAvroEncode,
			settings: map[string]string{"schema.strategy": "preRegistered", "schema.preRegistered.subject": "s",
				"schema.preRegistered.version": "1"}},
		{name: "avro.decode", plugin: "avro.decode", schemas: registry, random: func(rnd *rand.Rand) record.Record {
			encoded, err := plainAvroEncode(randomAvro(rnd))
			if err != nil {
				return record.Record{Position: record.Position("p"), After: record.Raw([]byte{0, 0, 0})}
			}
			return encoded[0]
		}, reference: plainAvroDecode},
	}
}

// words are the words of random texts, each with its form after all patterns are redacted.
var words = [][2]string{
	{"plain", "plain"}, {"1234", "1234"}, {"é ü", "é ü"}, {"a@b", "a@b"}, {"1.2.3", "1.2.3"},
	{"999.1.1.1", "999.1.1.1"}, {"123-45-678", "123-45-678"},
	{"4111 1111 1111 1111", "[REDACTED]"}, {"5500-0000-0000-0004", "[REDACTED]"},
	{"4111111111111112", "4111111111111112"},
	{"some.one+x@mail.example.org", "[REDACTED]"}, {"078-05-1120", "[REDACTED]"},
	{"DE89370400440532013000", "[REDACTED]"},
	{"DE88370400440532013000", "DE88370400440532013000"}, {"192.168.1.254", "[REDACTED]"},
	{"+49 30 1234567", "[REDACTED]"},
}

// randomTexts returns a record with texts in its payload, and the masked texts in its metadata.
func randomTexts(rnd *rand.Rand) record.Record {
	text := func() (was, want string) {
		for range rnd.IntN(4) {
			w, sep := words[rnd.IntN(len(words))], pick(rnd, "; ", " | ", "\n")
			was, want = was+w[0]+sep, want+w[1]+sep
		}
		return was, want
	}
	r := record.Record{Position: record.Position("p"), Operation: record.OperationCreate}
	var want [3]string
	m := map[string]any{"n": 7.0}
	for i, put := range []func(s string){
		func(s string) { m["a"] = s },
		func(s string) { m["o"] = map[string]any{"list": []any{s, true}} },
		func(s string) { r.Before = record.Raw([]byte(s)) },
	} {
		var was string
		was, want[i] = text()
		put(was)
	}
	r.After = record.Structured(m)
	r.Metadata = record.NewMetadata(map[string]string{"a": want[0], "o": want[1], "before": want[2]})
	return r
}

func plainMask(r record.Record) ([]record.Record, error) {
	r.After = record.Structured(map[string]any{"n": 7.0, "a": r.Metadata.Get("a"),
		"o": map[string]any{"list": []any{r.Metadata.Get("o"), true}}})
	r.Before = record.Raw([]byte(r.Metadata.Get("before")))
	return []record.Record{r}, nil
}

const avroText = `{"type":"record","name":"r","fields":[{"name":"s","type":"string"},{"name":"n","type":"long"},` +
	`{"name":"f","type":"double"},` +
	`{"name":"b","type":"boolean"},{"name":"o","type":["null","string"]},{"name":"l","type":{"type":"array",` +
	`"items":"long"}}]}`

func randomAvro(rnd *rand.Rand) record.Record {
	m := map[string]any{"s": pick(rnd, "", "text", "é"), "n": rnd.Int64() >> rnd.IntN(64) * pick(rnd, int64(1), -1),
		"f": rnd.NormFloat64(), "b": rnd.IntN(2) == 0, "o": nil, "l": []any{}}
	if rnd.IntN(2) == 0 {
		m["o"] = "some"
	}
	for range rnd.IntN(4) {
		m["l"] = append(m["l"].([]any), rnd.Int64N(1000)-500)
	}
	if rnd.IntN(20) == 0 {
		m["n"] = true // not a number
	}
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate, After: record.Structured(m)}
}

// plainAvroEncode writes the header, and the data as the Avro specification defines it for the schema.
func plainAvroEncode(r record.Record) ([]record.Record, error) {
	m, _ := r.After.Structured()
	n, ok := m["n"].(int64)
	if !ok {
		return nil, errReference
	}
	b := []byte{0, 0, 0, 0, 1}
	text := func(s string) { b = append(binary.AppendVarint(b, int64(len(s))), s...) } // zigzag, like Go's varint
	text(m["s"].(string))
	b = binary.AppendVarint(b, n)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(m["f"].(float64)))
	b = append(b, map[bool]byte{true: 1}[m["b"].(bool)])
	if m["o"] == nil {
		b = append(b, 0)
	} else {
		b = append(b, 2)
		text(m["o"].(string))
	}
	if list := m["l"].([]any); len(list) > 0 {
		b = binary.AppendVarint(b, int64(len(list)))
		for _, v := range list {
			b = binary.AppendVarint(b, v.(int64))
		}
	}
	r.After = record.Raw(append(b, 0))
	return []record.Record{r}, nil
}

func plainAvroDecode(r record.Record) ([]record.Record, error) {
	b, _ := r.After.Raw()
	if len(b) < 5 {
		return nil, errReference
	}
	b = b[5:]
	long := func() int64 {
		n, size := binary.Varint(b)
		b = b[size:]
		return n
	}
	text := func() string {
		n := long()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	m := map[string]any{"s": text(), "n": long()}
	m["f"] = math.Float64frombits(binary.LittleEndian.Uint64(b))
	m["b"] = b[8] == 1
	b = b[9:]
	if m["o"] = nil; long() == 1 {
		m["o"] = text()
	}
	list := []any{}
	for n := long(); n > 0; n-- {
		list = append(list, long())
	}
	m["l"] = list
	r.After = record.Structured(m)
	return []record.Record{r}, nil
}

// plainRate passes the first of every n records.
func plainRate(n int) reference {
	seen := 0
	return func(r record.Record) ([]record.Record, error) {
		if seen++; seen%n != 1 {
			return nil, nil
		}
		return []record.Record{r}, nil
	}
}

// plainShare passes a fraction of the values of m: those with a small hash.
func plainShare(share float64) reference {
	return func(r record.Record) ([]record.Record, error) {
		text := "null"
		if m, ok := r.Metadata.Map()["m"]; ok {
			b, _ := json.Marshal(m)
			text = string(b)
		}
		sum := sha256.Sum256([]byte("[" + text + ","))
		if float64(binary.BigEndian.Uint64(sum[:]))/math.Pow(2, 64) >= share {
			return nil, nil
		}
		return []record.Record{r}, nil
	}
}

func randomCountry(rnd *rand.Rand) record.Record {
	r := randomRecord(rnd)
	if code := rnd.IntN(4); code > 0 {
		r.Metadata.Set("code", []string{"", "CH", "FR", "XX"}[code])
	}
	return r
}

// plainCountry adds the table row for the code to the object c of the payload.
func plainCountry(r record.Record) ([]record.Record, error) {
	row := map[string][2]string{"CH": {"Switzerland", "CHF"}, "FR": {"France", "EUR"}}[r.Metadata.Get("code")]
	if row[0] == "" {
		return nil, nil
	}
	m, ok := r.After.Structured()
	if r.After.IsNone() {
		m, ok = map[string]any{}, true
		r.After = record.Structured(m)
	}
	if !ok {
		return nil, errReference
	}
	if m["c"] == nil {
		m["c"] = map[string]any{}
	}
	c, isObject := m["c"].(map[string]any)
	if !isObject {
		return nil, errReference
	}
	c["country"], c["currency"] = row[0], row[1]
	return []record.Record{r}, nil
}
