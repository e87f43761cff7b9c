package processor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Templates that go on for long end with the context of their batch, wherever they are, and
// refuse no record for that.
func TestTemplatesEndWithTheBatch(t *testing.T) {
	const endless = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}true`
	for name, declared := range map[string]spec.Processor{
		"condition": {Plugin: "filter", Condition: endless},
		"set":       {Plugin: "field.set", Settings: map[string]string{"field": ".Key", "value": endless}},
		"error":     {Plugin: "error", Settings: map[string]string{"message": endless}},
		"webhook":   {Plugin: "webhook.http", Settings: map[string]string{"request.url": "http://127.0.0.1:1/" + endless}},
		"enrich":    {Plugin: "enrich.http", Settings: map[string]string{"url": "http://127.0.0.1:1/" + endless}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			declared.ID = "x"
			chain, err := processor.Open(t.Context(), "p", []spec.Processor{declared}, processor.Options{Registry: &processor.Registry{Builtin: processor.Builtins()}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = chain.Teardown(context.Background()) }()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan time.Time, 1)
			time.AfterFunc(20*time.Millisecond, func() { ended <- time.Now(); cancel() })
			records := make([]record.Record, 100)
			for i := range records {
				records[i].Position = record.Position{byte(i)}
			}
			out, err := chain.Process(ctx, nil, records)
			if d := time.Since(<-ended); !errors.Is(err, context.Canceled) || d > wait.Within(1500*time.Millisecond, 1900*time.Millisecond) { // one execution may take 2s
				t.Errorf("%s after the context: %+v, %v", d, out, err)
			}
		})
	}
}
