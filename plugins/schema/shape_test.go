package schema_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
)

type object = map[string]any

func TestInfer(t *testing.T) {
	wrap := func(fields string) string { return `{"name":"record","type":"record","fields":[` + fields + `]}` }
	tests := map[string]struct {
		in   object
		want string
	}{
		"nothing": {object{}, wrap("")},
		"scalars, sorted": {
			object{"s": "", "b": true, "i": int8(1), "u": uint32(1), "f": float32(1), "y": []byte{}, "n": nil,
				"d": time.Second, "t": time.Now()},
			wrap(
				`{"name":"b","type":"boolean"},{"name":"d","type":{"type":"long","logicalType":"time-micros"}},{"name":"f",` +
					`"type":"double"},{"name":"i","type":"long"},` +
					`{"name":"n","type":"null"},{"name":"s","type":"string"},{"name":"t","type":{"type":"long",` +
					`"logicalType":"timestamp-micros"}},` +
					`{"name":"u","type":"long"},{"name":"y","type":"bytes"}`)},
		"nested": {
			object{"a": object{"b": object{"c": 1}}},
			wrap(
				`{"name":"a","type":{"name":"record.a","type":"record","fields":[{"name":"b","type":{"name":"record.a.b",` +
					`"type":"record","fields":[{"name":"c","type":"long"}]}}]}}`)},
		"array": {object{"a": []any{"x", nil, 1}},
			wrap(`{"name":"a","type":{"type":"array","items":["null","long","string"]}}`)},
		"durations": {
			object{"a": []any{time.Second, nil}, "b": []any{1, time.Second}},
			wrap(
				`{"name":"a","type":{"type":"array","items":["null",{"type":"long","logicalType":"time-micros"}]}},{"name":"b",` +
					`"type":{"type":"array","items":"long"}}`)},
		"empty array": {object{"a": []any{}}, wrap(`{"name":"a","type":{"type":"array","items":"null"}}`)},
		"array of objects": {
			object{"a": []any{object{"x": 1}, object{"y": ""}}},
			wrap(`{"name":"a","type":{"type":"array","items":{"name":"record.a.item","type":"record","fields":[` +
				`{"name":"x","type":["null","long"],"default":null},{"name":"y","type":["null","string"],"default":null}]}}}`)},
		"names never clash": {
			object{"a": []any{object{"item": object{}}, []any{object{}}}},
			wrap(
				`{"name":"a","type":{"type":"array","items":[{"type":"array","items":{"name":"record.a.item.item",` +
					`"type":"record","fields":[]}},` +
					`{"name":"record.a.item","type":"record","fields":[{"name":"item","type":{"name":"record.a.item.item_",` +
					`"type":"record","fields":[]}}]}]}}`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := schema.Infer(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if _, err := schema.Parse(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInferErrors(t *testing.T) {
	for want, in := range map[string]object{
		`"a-b" is not an Avro name`:                   {"a-b": 1},
		`"" is not an Avro name`:                      {"": 1},
		`x: "1a" is not an Avro name`:                 {"x": object{"1a": 1}},
		`c: a record cannot contain a chan int`:       {"c": make(chan int)},
		`a: [1]: a field has both times and integers`: {"a": []any{1, time.Now()}},
	} {
		if _, err := schema.Infer(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

func TestShapeFits(t *testing.T) {
	base := object{"a": 1, "n": object{"x": "s"}, "l": []any{1.5, nil}}
	tests := map[string]struct {
		in         object
		fits, same bool
	}{
		"itself":              {base, true, true},
		"other values":        {object{"a": int64(7), "n": object{"x": ""}, "l": []any{}}, true, true},
		"other kind":          {object{"a": "1", "n": object{"x": "s"}, "l": []any{}}, false, true},
		"null":                {object{"a": nil, "n": object{"x": "s"}, "l": []any{}}, false, true},
		"other kind inside":   {object{"a": 1, "n": object{"x": 1}, "l": []any{}}, false, true},
		"other item":          {object{"a": 1, "n": object{"x": "s"}, "l": []any{"x"}}, false, true},
		"field missing":       {object{"a": 1, "n": object{"x": "s"}}, false, false},
		"field more":          {object{"a": 1, "n": object{"x": "s"}, "l": []any{}, "z": 1}, false, false},
		"field more inside":   {object{"a": 1, "n": object{"x": "s", "z": 1}, "l": []any{}}, false, false},
		"field of other name": {object{"b": 1, "n": object{"x": "s"}, "l": []any{}}, false, false},
		"no value":            {object{"a": struct{}{}, "n": object{"x": "s"}, "l": []any{}}, false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := schema.ShapeOf(base)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Fits(test.in); got != test.fits {
				t.Errorf("Fits: %v", got)
			}
			if got := s.SameFields(test.in); got != test.same {
				t.Errorf("SameFields: %v", got)
			}
			if test.in["a"] == (struct{}{}) {
				return
			}
			wide, err := s.With(test.in)
			if err != nil || !wide.Fits(test.in) || !wide.Fits(base) {
				t.Errorf("With does not fit both: %v", err)
			}
			if s.Fits(test.in) != test.fits {
				t.Error("With changed the shape")
			}
		})
	}
	if new(schema.Shape).Fits(object{}) {
		t.Error("the zero shape fits something")
	}
}

func TestWithLeavesTheShapeAlone(t *testing.T) {
	s, err := schema.ShapeOf(object{"l": []any{object{"x": 1}}, "o": object{"x": 1}})
	if err != nil {
		t.Fatal(err)
	}
	text := s.Avro()
	for _, m := range []object{{"l": []any{object{"x": "s", "y": 1}}}, {"o": object{"x": nil, "y": 1}}, {"z": 1}} {
		if _, err := s.With(m); err != nil || s.Avro() != text {
			t.Errorf("%v: the shape became %s", err, s.Avro())
		}
	}
}

func BenchmarkFits(b *testing.B) {
	m := object{"id": 1, "name": "x", "at": time.Now(), "ok": true, "d": time.Second}
	s, _ := schema.ShapeOf(m)
	b.ReportAllocs()
	for b.Loop() {
		if !s.Fits(m) {
			b.Fatal("does not fit")
		}
	}
}

// Cyclic data has no shape.
func TestShapeOfEndlessData(t *testing.T) {
	object, list := map[string]any{}, []any{nil}
	object["a"], object["b"], list[0] = object, []any{object}, list
	for name, m := range map[string]map[string]any{"object": object, "list": {"a": list}} {
		if _, err := schema.ShapeOf(m); err == nil {
			t.Errorf("%s: it has a shape", name)
		}
		if _, err := schema.Infer(m); err == nil {
			t.Errorf("%s: it has a schema", name)
		}
	}
}
