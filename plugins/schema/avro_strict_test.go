//go:build !minimal

package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/schema/avro"
)

// valid are schemas that both parsers accept.
var valid = []string{
	`"long"`, `{"type":"string"}`, `[]`, `["null","string"]`,
	`{"type":"long","logicalType":"timestamp-micros","size":"x"}`,
	`{"type":"array","items":["null",{"type":"map","values":"bytes"}],"doc":5}`,
	`{"type":"enum","name":"E","namespace":"a.b","symbols":["A","B"],"default":"B"}`,
	`{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":9,"scale":2}`,
	`{"type":"bytes","logicalType":"decimal","precision":20}`,
	`{"type":"record","name":"Node","aliases":["any thing"],"fields":[{"name":"next","type":["null","Node"],"default":null},{"name":"all","type":{"type":"array","items":"Node"},"order":"ignore"}]}`,
	`{"type":"record","name":"a.b.R","fields":[{"name":"x","type":{"type":"fixed","name":"F","size":2},"default":"a\u00ff"},{"name":"y","type":"F","default":"bc"},
		{"name":"z","type":{"type":"a.b.F"},"aliases":["zz"]},{"name":"s","type":{"type":"record","name":"S","namespace":"","fields":[{"name":"f","type":"float","default":1.1}]}},
		{"name":"t","type":"S","default":{"f":2.5}},{"name":"u","type":"S","default":{}}]}`,
	`{"type":"record","name":"R","namespace":"n","fields":[{"name":"i","type":"int","default":-5},{"name":"l","type":"long","default":9007199254740993},
		{"name":"d","type":"double","default":3},{"name":"u","type":["null","long","double"],"default":7},{"name":"v","type":["int","double"],"default":1.5},
		{"name":"m","type":{"type":"map","values":"long"},"default":{"a":1}},{"name":"a","type":{"type":"array","items":"double"},"default":[1,2.5]},
		{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]},"default":"A"},{"name":"b","type":"boolean","default":true},{"name":"o","type":["null","string"]}]}`,
}

// used returns the parts of a node that the codec needs.
func used(n *avro.Node) map[string]any {
	m := map[string]any{"type": n.Type, "logical": n.LogicalType}
	switch n.Type {
	case "record", "error", "enum", "fixed":
		m["name"] = n.Name
		if n.Namespace != "" && !strings.Contains(n.Name, ".") {
			m["name"] = n.Namespace + "." + n.Name
		}
	case "array":
		m["items"] = used(n.Items)
	case "map":
		m["values"] = used(n.Values)
	}
	switch n.Type {
	case "fixed":
		m["size"] = n.Size
	case "enum":
		m["symbols"] = fmt.Sprint(n.Symbols)
	case "union":
		for i := range n.Branches {
			m[fmt.Sprint("branch ", i)] = used(&n.Branches[i])
		}
	case "record", "error":
		for i := range n.Fields {
			f := &n.Fields[i]
			m[fmt.Sprint("field ", i)] = map[string]any{"name": f.Name, "type": used(&f.Type), "default": f.Default, "has": f.HasDefault}
		}
	}
	if n.LogicalType == "decimal" && (n.Type == "fixed" || n.Type == "bytes") {
		m["scale"] = n.Scale
	}
	return m
}

// compare checks that the other parser accepts every schema that the strict parser accepts, with the same result.
func compare(t *testing.T, text string) (accepted bool) {
	t.Helper()
	strict, err := avro.ParseStrict(text)
	if err != nil {
		return false
	}
	library, err := avro.Parse(text)
	if err != nil {
		t.Fatalf("only the strict parser accepts %s: %v", text, err)
	}
	if diff := cmp.Diff(used(library), used(strict)); diff != "" {
		t.Fatalf("%s is another schema to the strict parser:\n%s", text, diff)
	}
	return true
}

func TestAvroStrict(t *testing.T) {
	for _, text := range valid {
		if !compare(t, text) {
			_, err := avro.ParseStrict(text)
			t.Errorf("%s is refused: %v", text, err)
		}
	}
}

// Schemas with exchanged, renamed and removed parts.
func TestAvroStrictAcceptsNothingElse(t *testing.T) {
	r, accepted := rand.New(rand.NewPCG(1, 2)), 0
	var all []any
	for _, text := range valid {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	parts := []any{nil, "", "R", "E", "a.b.F", "null", 0.0, -1.0, 1.5, 1e3, true, "decimal", "fixed", "error", "a..b", "9", []any{}, map[string]any{}}
	for _, v := range all {
		parts = append(parts, v)
		parts = append(parts, partsOf(v)...)
	}
	for range 3000 {
		v := mutate(r, all[r.IntN(len(all))], parts, 0.04)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if compare(t, string(text)) {
			accepted++
		}
	}
	if accepted < 150 {
		t.Errorf("only %d were accepted", accepted)
	}
}

func partsOf(v any) (all []any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			all = append(append(all, one), partsOf(one)...)
		}
	case map[string]any:
		for _, one := range v {
			all = append(append(all, one), partsOf(one)...)
		}
	}
	return all
}

// mutate returns a copy of v with some parts replaced by others, removed or added.
func mutate(r *rand.Rand, v any, parts []any, chance float64) any {
	if r.Float64() < chance/2 {
		return parts[r.IntN(len(parts))]
	}
	switch v := v.(type) {
	case []any:
		c := []any{}
		for _, one := range v {
			if r.Float64() >= chance {
				c = append(c, mutate(r, one, parts, chance))
			}
		}
		if r.Float64() < chance {
			c = append(c, parts[r.IntN(len(parts))])
		}
		return c
	case map[string]any:
		c := map[string]any{}
		for key, one := range v {
			if r.Float64() >= chance/2 {
				c[key] = mutate(r, one, parts, chance)
			}
		}
		if keys := []string{"default", "name", "namespace", "type", "items", "size", "symbols", "logicalType", "precision", "scale", "order", "aliases", "doc"}; r.Float64() < chance {
			c[keys[r.IntN(len(keys))]] = parts[r.IntN(len(parts))]
		}
		return c
	}
	return v
}

func TestAvroStrictRefuses(t *testing.T) {
	for _, text := range []string{
		``, `"int" 5`, `{`, `5`, `"decimal"`, `{"type":"array"}`, `["int","int"]`, `["int",["long"]]`, `{"type":"map","values":"int","name":"M"}`,
		`{"type":"enum","name":"int","symbols":[]}`, `{"type":"enum","name":"E","symbols":["A","A"]}`, `{"type":"enum","name":"E","symbols":["A"],"default":"B"}`,
		`{"type":"fixed","name":"F","size":-1}`, `{"type":"fixed","name":"F","size":1,"logicalType":"decimal","precision":3}`, `{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"5"}]}`, `{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":2147483648}]}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`, `{"type":"record","name":"R","fields":[{"name":"a b","type":"int"}]}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"up"}]}`, `{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":{}}]}`,
		strings.Repeat(`{"type":"array","items":`, 1001) + `"int"` + strings.Repeat("}", 1001),
	} {
		if _, err := avro.ParseStrict(text); err == nil {
			t.Errorf("%.200s is accepted", text)
		}
	}
}

func FuzzAvroStrict(f *testing.F) {
	for _, text := range valid {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}
