package schema_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// TestDescribe describes every part of a schema, and a recursive type as a cycle.
func TestDescribe(t *testing.T) {
	codec, err := schema.Parse(`{"type":"record","name":"order","fields":[
		{"name":"total","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]},
		{"name":"tags","type":{"type":"map","values":{"type":"array","items":"string"}}},
		{"name":"at","type":{"type":"int","logicalType":"timestamp-micros"}},
		{"name":"parent","type":["null","order"]},
		{"name":"amount","type":{"type":"string","logicalType":"numeric","precision":12,"scale":3}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	d := schema.Describe(codec)
	got := ""
	for _, f := range d.Fields {
		got += fmt.Sprintf("%s %s%s;", f.Name, f.Type.Type, f.Type.Logical)
	}
	if got != "total union;tags map;at int;parent union;amount stringnumeric;" {
		t.Errorf("the fields are %s", got)
	}
	if total := d.Fields[0].Type.Branches[1]; total.Type != "bytes" || total.Logical != "decimal" ||
		total.Precision != 9 || total.Scale != 2 {
		t.Errorf("the decimal is %+v", total)
	}
	if amount := d.Fields[4].Type; amount.Precision != 12 || amount.Scale != 3 {
		t.Errorf("the number is %+v", amount)
	}
	b, err := codec.Append(nil, map[string]any{"total": nil, "tags": map[string]any{}, "at": 1, "parent": nil,
		"amount": "1.500"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := codec.Decode(b); err != nil || got["amount"] != "1.500" {
		t.Errorf("the text of a number becomes %v: %v", got, err)
	}
	if tags := d.Fields[1].Type; tags.Items.Type != "array" || tags.Items.Items.Type != "string" {
		t.Errorf("the values of the map are %+v", tags.Items)
	}
	if d.Fields[3].Type.Branches[1] != d {
		t.Error("the recursive type is not a cycle")
	}
}
