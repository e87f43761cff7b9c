package record_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Functions that call themselves for each level of values of endlessDepth need more stack than maxStack.
const (
	endlessDepth = 50_000
	maxStack     = 4 << 20
)

// endless returns values that contain themselves, or are deeper than a stack.
func endless() map[string]map[string]any {
	object := map[string]any{"n": 1}
	object["self"], object["again"], object["list"] = object, object, []any{object, object}
	list := []any{nil, nil, 1}
	list[0], list[1] = list, list
	type own map[string]any
	typed := own{}
	typed["self"] = typed
	type node struct{ Next *node }
	chain := &node{}
	for range endlessDepth {
		chain = &node{chain}
	}
	var objects any = 1
	for range endlessDepth {
		objects = map[string]any{"a": objects}
	}
	return map[string]map[string]any{
		"an object in itself": object, "a list in itself": {"v": list}, "a deep list": {"v": deep(endlessDepth)},
		"a deep object": {"v": objects}, "a type of its own": {"v": typed}, "a chain": {"v": chain},
	}
}

// Data that contains itself can be measured, copied and written as a dead letter, and every encoder refuses it.
func TestEndlessData(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(maxStack))
	for name, m := range endless() {
		t.Run(name, func(t *testing.T) {
			for _, avro := range []bool{false, true} {
				r := record.Record{Position: record.Position("1"), Key: record.Structured(m),
					Before: record.Structured(m), After: record.Structured(m)}
				if avro {
					r.Metadata.Set(record.KeyPayloadSchemaSubject, "s")
				}
				clone := r.Clone()
				copied, _ := clone.After.Structured()
				if copied["added"] = 1; m["added"] != nil {
					t.Fatal("the copy is the original")
				}
				for _, r := range []record.Record{r, clone} {
					if r.Memory() < 0 || r.Size() < 0 || r.Content() < 0 || record.ValueMemory(m) < 0 {
						t.Error("a size is negative")
					}
					_, inJSON := record.AppendJSON(nil, &r)
					_, inWire := record.AppendWire(nil, &r)
					for _, err := range []error{inJSON, inWire} {
						if err == nil || len(err.Error()) > 500 {
							t.Errorf("got %.500v", err)
						}
					}
					e := r.Encodable()
					text, err := record.AppendJSON(nil, &e)
					if err != nil || !strings.Contains(string(text), `"after":"`) {
						t.Errorf("got %.100s, %v", text, err)
					}
					if _, err := record.AppendWire(nil, &e); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// Shallow truncates such data in the records of a batch, once, and leaves other data alone.
func TestShallow(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(maxStack))
	all := endless()
	for _, name := range []string{"an object in itself", "a list in itself", "a deep list", "a deep object"} {
		plain := record.Record{After: record.Structured(map[string]any{"a": []any{1, map[string]any{"b": 2}}})}
		b := record.NewBatch([]record.Record{plain, {After: record.Structured(all[name])}})
		if !b.Shallow() {
			t.Errorf("%s: nothing is replaced", name)
		}
		records, _ := b.Records()
		if !records[0].Equal(plain) {
			t.Errorf("%s: another record is %v", name, records[0])
		}
		if _, err := record.AppendJSON(nil, &records[1]); err == nil ||
			!strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("%s: got %v", name, err)
		}
		if depth := depthOf(object(records[1])); depth > 2002 {
			t.Errorf("%s: it is %d deep", name, depth)
		}
		if again := record.NewBatch(records[:1]); again.Shallow() {
			t.Errorf("%s: a record as any other is replaced", name)
		}
	}
}

func depthOf(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n = max(n, depthOf(e))
		}
		return n + 1
	case []any:
		for _, e := range v {
			n = max(n, depthOf(e))
		}
		return n + 1
	}
	return 0
}

func object(r record.Record) any {
	m, _ := r.After.Structured()
	return m
}
