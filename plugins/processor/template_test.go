package processor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Long-running templates end with the context of their batch, wherever they are used, and cause no record to be
// refused. The context ends in the first iteration.
func TestTemplatesEndWithTheBatch(t *testing.T) {
	const long = `{{ range until 300 }}{{ range until 300 }}{{ $.Payload.After.x }}{{ end }}{{ end }}true`
	for name, declared := range map[string]spec.Processor{
		"condition": {Plugin: "filter", Condition: long},
		"set":       {Plugin: "field.set", Settings: map[string]string{"field": ".Key", "value": long}},
		"error":     {Plugin: "error", Settings: map[string]string{"message": long}},
		"webhook": {Plugin: "webhook.http",
			Settings: map[string]string{"request.url": "http://127.0.0.1:1/" + long}},
		"enrich": {Plugin: "enrich.http", Settings: map[string]string{"url": "http://127.0.0.1:1/" + long}},
	} {
		t.Run(name, func(t *testing.T) {
			// Time stands still, so no time limit ends the template.
			synctest.Test(t, func(t *testing.T) { endsWithTheBatch(t, declared) })
		})
	}
}

// ending is a value that ends a context when it is printed.
type ending struct {
	cancel  context.CancelFunc
	printed int
}

func (e *ending) String() string {
	e.cancel()
	e.printed++
	return ""
}

func endsWithTheBatch(t *testing.T, declared spec.Processor) {
	t.Helper()
	declared.ID = "x"
	chain, err := processor.Open(t.Context(), "p", []spec.Processor{declared},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = chain.Teardown(context.Background()) }()
	ctx, cancel := context.WithCancel(t.Context())
	x := &ending{cancel: cancel}
	records := make([]record.Record, 100)
	for i := range records {
		records[i].Position = record.Position{byte(i)}
		records[i].After = record.Structured(map[string]any{"x": x})
	}
	if out, err := chain.Process(ctx, nil, records); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", out, err)
	}
	if x.printed == 0 || x.printed > 1000 {
		t.Errorf("%d iterations after the end of the context, want at most 1000", x.printed)
	}
}
