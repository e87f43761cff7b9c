package schema_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/google/go-cmp/cmp"
)

// TestFields checks the description of the fields of a schema, in their order and without null.
func TestFields(t *testing.T) {
	c, err := schema.Parse(recordOf(`{"name":"z","type":["null","int"]}, {"name":"none","type":"null"},
		{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}]},
		{"name":"amount","type":{"type":"string","logicalType":"numeric","precision":12,"scale":3}},
		{"name":"any","type":{"type":"string","logicalType":"numeric"}},
		{"name":"at","type":[{"type":"long","logicalType":"timestamp-micros"},"string","null"]},
		{"name":"other","type":{"type":"long","logicalType":"unknown"}},
		{"name":"list","type":{"type":"array","items":"int"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Field{
		{Name: "z", Types: []schema.FieldType{{Avro: "int"}}},
		{Name: "none"},
		{Name: "price", Types: []schema.FieldType{{Avro: "bytes", Logical: "decimal", Precision: 10, Scale: 2}}},
		{Name: "amount", Types: []schema.FieldType{{Avro: "string", Logical: "numeric", Precision: 12, Scale: 3}}},
		{Name: "any", Types: []schema.FieldType{{Avro: "string", Logical: "numeric"}}},
		{Name: "at", Types: []schema.FieldType{{Avro: "long", Logical: "timestamp-micros"}, {Avro: "string"}}},
		{Name: "other", Types: []schema.FieldType{{Avro: "long"}}},
		{Name: "list", Types: []schema.FieldType{{Avro: "array"}}},
	}
	if diff := cmp.Diff(want, c.Fields()); diff != "" {
		t.Error(diff)
	}
	number, err := c.Append(nil, map[string]any{"z": nil, "none": nil, "price": nil, "amount": "1.500", "any": "2",
		"at": nil, "other": 1, "list": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Decode(number); err != nil || got["amount"] != "1.500" {
		t.Errorf("%v: %v", got, err)
	}
	c, err = schema.Parse(`{"type":"map","values":"int"}`)
	if err != nil || len(c.Fields()) != 0 {
		t.Errorf("a map has the fields %v: %v", c.Fields(), err)
	}
}
