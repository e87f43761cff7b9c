package processor_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// reference is a plain implementation of a processor. It gets a copy of the record and returns the resulting records,
// or an error if the record is refused.
type reference func(r record.Record) ([]record.Record, error)

// one makes a reference from a function that changes a record.
func one(change func(r *record.Record) error) reference {
	return func(r record.Record) ([]record.Record, error) {
		if err := change(&r); err != nil {
			return nil, err
		}
		return []record.Record{r}, nil
	}
}

var errReference = fmt.Errorf("refused")

// at calls do with the object that holds the last name of path, or nil if there is none.
func at(d record.Data, path []string, do func(m map[string]any, name string) error) error {
	if d.IsNone() {
		return do(nil, "")
	}
	m, ok := d.Structured()
	if !ok {
		return errReference
	}
	for _, name := range path[:len(path)-1] {
		v, exists := m[name]
		if !exists || v == nil {
			return do(nil, "")
		}
		if m, ok = v.(map[string]any); !ok {
			return errReference
		}
	}
	return do(m, path[len(path)-1])
}

// onValue replaces the value at the path of the payload if it exists and is not nil.
func onValue(path []string, do func(v any) (any, error)) reference {
	return one(func(r *record.Record) error {
		return at(r.After, path, func(m map[string]any, name string) error {
			v := m[name]
			if v == nil {
				return nil
			}
			out, err := do(v)
			if err == nil {
				m[name] = out
			}
			return err
		})
	})
}

func plainText(v any, bits bool) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		if bits {
			return map[bool]string{true: "1", false: "0"}[v]
		}
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case map[string]any, []any:
		b, _ := plainMarshal(v)
		return string(b)
	}
	return fmt.Sprint(v)
}

// plainMarshal returns v as JSON. Text that is not UTF-8 becomes base64.
func plainMarshal(v any) ([]byte, error) {
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case string:
			if !utf8.ValidString(v) {
				return []byte(v)
			}
		case []any:
			items := make([]any, len(v))
			for i := range v {
				items[i] = plain(v[i])
			}
			return items
		case map[string]any:
			fields := map[string]any{}
			for name := range v {
				fields[name] = plain(v[name])
			}
			return fields
		}
		return v
	}
	return json.Marshal(plain(v))
}

func plainSet(value any) reference {
	return one(func(r *record.Record) error {
		if r.After.IsNone() {
			r.After = record.Structured(map[string]any{})
		}
		m, ok := r.After.Structured()
		if !ok {
			return errReference
		}
		inner, ok := m["c"].(map[string]any)
		if m["c"] == nil {
			inner = map[string]any{}
			m["c"] = inner
		} else if !ok {
			return errReference
		}
		inner["a"] = value
		return nil
	})
}

func plainJSON(v any) (any, error) {
	var text string
	switch v := v.(type) {
	case map[string]any, []any:
		return v, nil
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return nil, errReference
	}
	if text == "" {
		return nil, nil
	}
	var out any
	err := json.Unmarshal([]byte(text), &out)
	return out, err
}

func plainBase64(v any) (any, error) {
	switch b := v.(type) {
	case map[string]any, []any, time.Time:
		return nil, errReference
	case []byte:
		return base64.StdEncoding.EncodeToString(b), nil
	}
	if f, ok := v.(float64); ok {
		text, err := json.Marshal(f)
		return base64.StdEncoding.EncodeToString(text), err
	}
	return base64.StdEncoding.EncodeToString(fmt.Append(nil, v)), nil
}

type differential struct {
	name, plugin, condition string
	settings                map[string]string
	schemas                 schema.Registry
	random                  func(*rand.Rand) record.Record
	reference               reference
}

func differentials() []differential {
	path := []string{"c", "a"}
	all := []differential{
		{name: "set constant", plugin: "field.set",
			settings: map[string]string{"field": ".Payload.After.c.a", "value": "x"}, reference: plainSet("x")},
		{name: "set typed", plugin: "field.set", settings: map[string]string{"field": ".Payload.After.c.a",
			"value": "7", "type": "int"}, reference: plainSet(int64(7))},
		{name: "set template", plugin: "field.set", settings: map[string]string{"field": ".Payload.After.c.a",
			"value": "<{{ .Metadata.m }}>"}, reference: func(r record.Record) ([]record.Record, error) {
			if m := r.Metadata.Get("m"); m != "" {
				return plainSet("<" + m + ">")(r)
			}
			return nil, errReference
		}},
		{name: "exclude", plugin: "field.exclude",
			settings: map[string]string{"fields": ".Payload.After.c.a, .Metadata.m"},
			reference: one(func(r *record.Record) error {
				r.Metadata.Delete("m")
				return at(r.After, path, func(m map[string]any, name string) error { delete(m, name); return nil })
			})},
		{name: "rename", plugin: "field.rename", settings: map[string]string{"mapping": ".Payload.After.c.a:b"},
			reference: one(func(r *record.Record) error {
				return at(r.After, path, func(m map[string]any, name string) error {
					v, ok := m[name]
					if _, taken := m["b"]; ok && taken {
						return errReference
					}
					if ok {
						delete(m, name)
						m["b"] = v
					}
					return nil
				})
			})},
		{name: "include", plugin: "field.include",
			settings: map[string]string{"fields": ".Payload.After.c.a,.Payload.After.b"}, reference: plainInclude},
		{name: "mask", plugin: "field.mask", settings: map[string]string{"fields": ".Payload.After.c.a"},
			reference: onValue(path, func(any) (any, error) { return "[REDACTED]", nil })},
		{name: "split", plugin: "split", settings: map[string]string{"field": ".Payload.After.c.a"},
			reference: plainSplit},
		{name: "clone", plugin: "clone", settings: map[string]string{"count": "2"},
			reference: func(r record.Record) (out []record.Record, _ error) {
				for i := range 3 {
					c := r.Clone()
					c.Metadata.Set("clone.index", strconv.Itoa(i))
					out = append(out, c)
				}
				return out, nil
			}},
		{name: "filter", plugin: "filter", condition: `{{ eq .Metadata.m "1" }}`,
			reference: func(r record.Record) ([]record.Record, error) {
				if r.Metadata.Get("m") == "1" {
					return nil, nil
				}
				return []record.Record{r}, nil
			}},
		{name: "error", plugin: "error", condition: `{{ eq .Metadata.m "1" }}`,
			reference: func(r record.Record) ([]record.Record, error) {
				if r.Metadata.Get("m") == "1" {
					return nil, errReference
				}
				return []record.Record{r}, nil
			}},
		{name: "kafkaconnect", plugin: "unwrap.kafkaconnect", random: randomEnvelope, reference: plainKafkaConnect},
		{name: "opencdc", plugin: "unwrap.opencdc", random: randomWrapped, reference: plainOpenCDC},
		{name: "debezium", plugin: "unwrap.debezium", random: randomEnvelope, reference: plainDebezium},
	}
	return slices.Concat(all, codecs(), conversions())
}

// codecs are the processors that encode and decode a value.
func codecs() []differential {
	path := []string{"c", "a"}
	return []differential{
		{name: "base64", plugin: "base64.encode", settings: map[string]string{"field": ".Payload.After.c.a"},
			reference: onValue(path, plainBase64)},
		{name: "from base64", plugin: "base64.decode", settings: map[string]string{"field": ".Payload.After.c.a"},
			reference: onValue(path, func(v any) (any, error) {
				switch v.(type) {
				case string, []byte:
					b, err := base64.StdEncoding.DecodeString(plainText(v, false))
					return string(b), err
				}
				return nil, errReference
			})},
		{name: "json", plugin: "json.encode", settings: map[string]string{"field": ".Payload.After.c.a"},
			reference: onValue(path, func(v any) (any, error) {
				b, err := plainMarshal(v)
				return string(b), err
			})},
		{name: "from json", plugin: "json.decode", settings: map[string]string{"field": ".Payload.After.c.a"},
			reference: onValue(path, plainJSON)},
	}
}

// conversions are the cases for field.convert.
func conversions() (all []differential) {
	path := []string{"c", "a"}
	for typ, read := range map[string]func(string) (any, error){
		"string": func(s string) (any, error) { return s, nil },
		"int":    func(s string) (any, error) { return strconv.ParseInt(s, 10, 64) },
		"float":  func(s string) (any, error) { return strconv.ParseFloat(s, 64) },
		"bool":   func(s string) (any, error) { return strconv.ParseBool(s) },
		"time": func(s string) (any, error) {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				return time.Unix(0, n).UTC(), nil
			}
			return time.Parse(time.RFC3339Nano, s)
		},
	} {
		all = append(all, differential{name: "convert to " + typ, plugin: "field.convert",
			settings: map[string]string{"field": ".Payload.After.c.a", "type": typ},
			reference: onValue(path, func(v any) (any, error) {
				return read(plainText(v, typ == "int" || typ == "float"))
			})})
	}
	return all
}

func plainInclude(r record.Record) ([]record.Record, error) {
	m, ok := r.After.Structured()
	if !ok && !r.After.IsNone() {
		return nil, errReference
	}
	if !ok || len(m) == 0 {
		return []record.Record{r}, nil
	}
	kept := map[string]any{}
	if c, ok := m["c"].(map[string]any); ok {
		if v, ok := c["a"]; ok {
			kept["c"] = map[string]any{"a": v}
		}
	} else if m["c"] != nil {
		return nil, errReference
	}
	if v, ok := m["b"]; ok {
		kept["b"] = v
	}
	r.After = record.Structured(kept)
	return []record.Record{r}, nil
}

func plainSplit(r record.Record) (out []record.Record, err error) {
	m, _ := r.After.Structured()
	c, _ := m["c"].(map[string]any)
	items, ok := c["a"].([]any)
	if !ok {
		return nil, errReference
	}
	for i, item := range items {
		piece := r.Clone()
		m, _ := piece.After.Structured()
		m["c"].(map[string]any)["a"] = item
		piece.Metadata.Set("split.index", strconv.Itoa(i))
		out = append(out, piece.Clone())
	}
	return out, nil
}

func plainObject(d record.Data) (map[string]any, bool) {
	if m, ok := d.Structured(); ok {
		return m, true
	}
	b, _ := d.Raw()
	var m map[string]any
	return m, json.Unmarshal(b, &m) == nil && m != nil
}

func plainKey(r *record.Record) {
	m, ok := plainObject(r.Key)
	v, has := m["payload"]
	if !ok || !has {
		return
	}
	if inner, ok := v.(map[string]any); ok {
		r.Key = record.Structured(inner)
	} else {
		r.Key = record.Raw([]byte(plainText(v, false)))
	}
}

func plainKafkaConnect(r record.Record) ([]record.Record, error) {
	m, _ := plainObject(r.After)
	after, ok := m["payload"].(map[string]any)
	if !ok {
		return nil, errReference
	}
	r.Operation, r.Before, r.After = record.OperationCreate, record.Data{}, record.Structured(after)
	plainKey(&r)
	return []record.Record{r}, nil
}

func plainDebezium(r record.Record) ([]record.Record, error) {
	if r.After.IsNone() {
		return []record.Record{r}, nil
	}
	m, _ := plainObject(r.After)
	p, ok := m["payload"].(map[string]any)
	_, hasAfter := p["after"]
	source, hasSource := p["source"]
	op, known := map[any]record.Operation{"c": 1, "u": 2, "d": 3, "r": 4, "$unset": 2}[fmt.Sprint(p["op"])]
	if !ok || !hasAfter || !hasSource || !known {
		return nil, errReference
	}
	side := func(v any) (record.Data, bool) {
		switch v := v.(type) {
		case nil:
			return record.Data{}, true
		case string:
			return record.Raw([]byte(v)), true
		case map[string]any:
			return record.Structured(v), true
		}
		return record.Data{}, false
	}
	before, ok1 := side(p["before"])
	after, ok2 := side(p["after"])
	if !ok1 || !ok2 {
		return nil, errReference
	}
	switch ts := p["ts_ms"].(type) {
	case nil:
	case float64:
		r.Metadata.Set(record.KeyReadAt, strconv.FormatInt(int64(ts)*1e6, 10))
	case int64:
		r.Metadata.Set(record.KeyReadAt, strconv.FormatInt(ts*1e6, 10))
	default:
		return nil, errReference
	}
	if v := p["transaction"]; v != nil {
		r.Metadata.Set("debezium.transaction", plainText(v, false))
	}
	if m, ok := source.(map[string]any); ok && m["table"] != nil {
		r.Metadata.Set("table", plainText(m["table"], false))
	}
	r.Operation, r.Before, r.After = op, before, after
	plainKey(&r)
	return []record.Record{r}, nil
}

func pick[T any](rnd *rand.Rand, choices ...T) T { return choices[rnd.IntN(len(choices))] }

func randomValue(rnd *rand.Rand, depth int) any {
	switch n := rnd.IntN(16); {
	case n == 0:
		return nil
	case n == 1:
		return rnd.IntN(2) == 0
	case n == 2:
		return rnd.Int64() >> rnd.IntN(64)
	case n == 3:
		return pick(rnd, 0, 1, -1.5, 1e21, 1e-7, 123456789, rnd.NormFloat64())
	case n == 4:
		return []byte(pick(rnd, "", "bytes", "Zm9v"))
	case n == 5:
		return time.Unix(rnd.Int64N(1<<33), rnd.Int64N(1e9)).UTC()
	case n < 12 || depth == 0:
		return pick(rnd, "", "text", "123", "1.5", "true", "1", " 5", "Zm9v", `{"a":[1,2.5,null],"b":"<&>"}`, "[1",
			`"x"`, "2024-01-02T03:04:05Z", "é\u2028\xff")
	case n < 14:
		items := make([]any, rnd.IntN(4))
		for i := range items {
			items[i] = randomValue(rnd, depth-1)
		}
		return items
	}
	return randomObject(rnd, depth-1)
}

func randomObject(rnd *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		if rnd.IntN(4) > 0 {
			m[name] = randomValue(rnd, depth)
		}
	}
	if depth > 1 && rnd.IntN(8) > 0 { // most objects have the fields that the processors read
		m["c"] = randomObject(rnd, depth-1)
	}
	return m
}

func randomRecord(rnd *rand.Rand) record.Record {
	r := record.Record{Position: record.Position("p"), Operation: record.Operation(1 + rnd.IntN(4))}
	if rnd.IntN(8) > 0 {
		r.Metadata = record.NewMetadata(map[string]string{"m": pick(rnd, "1", "2"), "n": "x"})
	}
	switch rnd.IntN(10) {
	case 0:
	case 1:
		r.After = record.Raw([]byte("raw"))
	default:
		r.After = record.Structured(randomObject(rnd, 2))
	}
	return r
}

func randomEnvelope(rnd *rand.Rand) record.Record {
	r, p := randomRecord(rnd), map[string]any{}
	for name, values := range map[string][]any{
		"op": {"c", "u", "d", "r", "x", "$unset"}, "before": {nil, "raw", map[string]any{"a": 1.0}},
		"after":  {nil, "raw", map[string]any{"a": 1.0}, true},
		"source": {nil, map[string]any{}, map[string]any{"table": "t"}, map[string]any{"table": 12345678.0}},
		"ts_ms":  {nil, 1674061777225.0, "later"}, "transaction": {nil, "t", []any{1.0, 2.0}},
	} {
		if rnd.IntN(10) > 0 {
			p[name] = record.CloneValue(values[rnd.IntN(len(values))])
		}
	}
	envelope := map[string]any{"payload": any(p), "schema": map[string]any{}}
	if rnd.IntN(10) == 0 {
		envelope["payload"] = "text"
	}
	r.After = record.Structured(envelope)
	if rnd.IntN(2) == 0 {
		b, _ := json.Marshal(envelope)
		r.After = record.Raw(b)
	}
	r.Key = pick(rnd, record.Data{}, record.Raw([]byte("plain")), record.Raw([]byte(`{"payload":27}`)),
		record.Structured(map[string]any{"payload": map[string]any{"id": 1.0}}))
	return r
}

func randomWrapped(rnd *rand.Rand) record.Record {
	r, inner := randomRecord(rnd), map[string]any{}
	for name, values := range map[string][]any{
		"operation": {"create", "update", "delete", "snapshot", "upsert", 1.0},
		"metadata":  {map[string]any{}, map[string]any{"a": "x", "n": 12345678.0, "nil": nil}, "text"},
		"key":       {nil, "Zm9v", "%", map[string]any{"id": 1.0}, 7.0},
		"payload": {map[string]any{"after": map[string]any{"a": 1.0}}, map[string]any{"before": "Zm9v", "after": nil},
			map[string]any{"after": "%"}, nil},
	} {
		if rnd.IntN(20) > 0 {
			inner[name] = record.CloneValue(values[rnd.IntN(len(values))])
		}
	}
	r.After = record.Structured(inner)
	if rnd.IntN(2) == 0 {
		b, _ := json.Marshal(inner)
		r.After = record.Raw(b)
	}
	return r
}

func plainOpenCDC(r record.Record) ([]record.Record, error) {
	m, _ := plainObject(r.After)
	op, known := map[any]record.Operation{"create": 1, "update": 2, "delete": 3, "snapshot": 4}[m["operation"]]
	metadata, hasMetadata := m["metadata"].(map[string]any)
	payload, hasPayload := m["payload"].(map[string]any)
	if !known || !hasMetadata || !hasPayload {
		return nil, errReference
	}
	out := record.Record{Position: r.Position, Operation: op}
	for k, v := range metadata {
		if v != nil {
			out.Metadata.Set(k, plainText(v, false))
		}
	}
	for d, v := range map[*record.Data]any{&out.Key: m["key"], &out.Before: payload["before"],
		&out.After: payload["after"]} {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			*d = record.Structured(v)
		case string:
			b, err := base64.StdEncoding.DecodeString(v)
			if err != nil {
				return nil, err
			}
			*d = record.Raw(b)
		default:
			return nil, errReference
		}
	}
	return []record.Record{out}, nil
}

func TestMain(m *testing.M) {
	wait.CollectLess()
	m.Run()
}

var compared = flag.Int("records", 200, "random records for each processor that is compared with its reference")

// TestProcessorsAreTheirReference feeds random records to each processor and to its reference implementation.
func TestProcessorsAreTheirReference(t *testing.T) {
	for _, d := range slices.Concat(differentials(), moreDifferentials(t), parsers()) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			compareWithReference(t, d, *compared)
		})
	}
}

func compareWithReference(t *testing.T, d differential, n int) {
	seed := rand.Uint64()
	rnd, random := rand.New(rand.NewPCG(seed, 0)), d.random
	if random == nil {
		random = randomRecord
	}
	c, err := processor.Open(context.Background(), "p",
		[]spec.Processor{{ID: "x", Plugin: d.plugin, Settings: d.settings, Condition: d.condition}},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Schemas: d.schemas})
	if err != nil {
		t.Fatal(err)
	}
	fates := [3]int{} // kept, refused, dropped
	size := min(n, 1000)
	for done := 0; done < n; done += size {
		in, copies := make([]record.Record, size), make([]record.Record, size)
		for i := range in {
			in[i] = random(rnd)
			copies[i] = in[i].Clone()
		}
		out, err := c.Process(context.Background(), done, in)
		if err != nil {
			t.Fatal(err)
		}
		refused, results, at := map[int]error{}, out.Records, 0
		for _, r := range out.Refused {
			refused[int(r.Index)] = r.Err
		}
		for i := range copies {
			first := at
			for at < len(results) && (out.Origins == nil && at == i || out.Origins != nil &&
				out.Origins[at] == int32(i)) {
				at++
			}
			want, wantErr := d.reference(copies[i].Clone())
			if (wantErr != nil) != (refused[i] != nil) {
				t.Fatalf("seed %d: %+v\nrefused: %v; want %v", seed, copies[i], refused[i], wantErr)
			}
			fates[min(2, map[bool]int{true: 1}[wantErr != nil]+map[bool]int{true: 2}[wantErr == nil &&
				len(want) == 0])]++
			if len(want) != at-first || !equalAll(want, results[first:at]) {
				t.Fatalf("seed %d: %+v (-want +got):\n%s", seed, copies[i],
					cmp.Diff(want, append([]record.Record{}, results[first:at]...)))
			}
		}
	}
	if fates[0]+fates[2] == 0 {
		t.Errorf("all %d records were refused", n)
	}
	t.Logf("%d go on, %d refused, %d dropped", fates[0], fates[1], fates[2])
}

func equalAll(a, b []record.Record) bool {
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}
