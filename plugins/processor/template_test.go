package processor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Long-running templates end with the context of their batch, wherever they are used, and cause no record to be
// refused.
func TestTemplatesEndWithTheBatch(t *testing.T) {
	const endless = `{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}true`
	for name, declared := range map[string]spec.Processor{
		"condition": {Plugin: "filter", Condition: endless},
		"set":       {Plugin: "field.set", Settings: map[string]string{"field": ".Key", "value": endless}},
		"error":     {Plugin: "error", Settings: map[string]string{"message": endless}},
		"webhook": {Plugin: "webhook.http",
			Settings: map[string]string{"request.url": "http://127.0.0.1:1/" + endless}},
		"enrich": {Plugin: "enrich.http", Settings: map[string]string{"url": "http://127.0.0.1:1/" + endless}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var took []time.Duration
			for range attempts { // one execution may take 2 s; on a busy machine, a prompt end may, too
				if took = append(took, endOf(t, declared)); took[len(took)-1] < 1500*time.Millisecond {
					return
				}
			}
			t.Errorf("it goes on for %v after the context", took)
		})
	}
}

// attempts is the number of attempts to see a prompt end. On a busy machine even a correct processor may take as long
// as a faulty one, so one prompt end is enough.
const attempts = 10

// endOf returns the time between the end of the context and the end of a chain with the processor.
func endOf(t *testing.T, declared spec.Processor) time.Duration {
	t.Helper()
	declared.ID = "x"
	chain, err := processor.Open(t.Context(), "p", []spec.Processor{declared},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
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
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", out, err)
	}
	return time.Since(<-ended)
}
