package processor_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// TestUnavailableValues unwraps rows with each form of the placeholder that Debezium writes for a value it did not get:
// an update omits the field, a new row is refused.
func TestUnavailableValues(t *testing.T) {
	t.Parallel()
	const text = "__debezium_unavailable_value"
	numbers := make([]any, len(text))
	for i := range text {
		numbers[i] = float64(text[i])
	}
	chain, err := processor.Open(t.Context(), "p", []spec.Processor{{ID: "x", Plugin: "unwrap.debezium"}},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Teardown(context.Background()) })
	for name, c := range map[string]struct {
		value any
		known bool
	}{
		"text":             {text, false},
		"base64":           {base64.StdEncoding.EncodeToString([]byte(text)), false},
		"hexadecimal":      {hex.EncodeToString([]byte(text)), false},
		"array of text":    {[]any{text}, false},
		"array of bytes":   {[]any{base64.StdEncoding.EncodeToString([]byte(text))}, false},
		"array of numbers": {numbers, false},
		"array of UUIDs":   {[]any{"b68a35a7-17ad-35b3-af2a-ae46edb4545a"}, false},
		"hstore":           {map[string]any{text: text}, false},
		"other text":       {"see " + text, true},
		"other array":      {[]any{text, text}, true},
		"other numbers":    {append([]any{1.0}, numbers[1:]...), true},
		"null":             {nil, true},
	} {
		for op, newRow := range map[string]bool{"u": false, "c": true, "r": true} {
			t.Run(name+"/"+op, func(t *testing.T) {
				envelope, _ := json.Marshal(map[string]any{"payload": map[string]any{"op": op,
					"source": map[string]any{}, "before": nil,
					"after": map[string]any{"id": 1, "value": c.value}}})
				out, err := chain.Process(t.Context(), 1,
					[]record.Record{{Position: record.Position("1"), After: record.Raw(envelope)}})
				if err != nil {
					t.Fatal(err)
				}
				if !c.known && newRow {
					if len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(),
						"value") || !strings.Contains(out.Refused[0].Err.Error(), "REPLICA IDENTITY FULL") {
						t.Fatalf("a row without the value is not refused: %+v", out)
					}
					return
				}
				if len(out.Records) != 1 {
					t.Fatalf("got %+v", out)
				}
				after, _ := out.Records[0].After.Structured()
				if _, ok := after["value"]; ok != c.known || after["id"] == nil {
					t.Errorf("the row is %v", after)
				}
			})
		}
	}
}
