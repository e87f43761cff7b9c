package processor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// The reasons why Process returns, whatever its records and settings are.
const (
	loopsOverData = "it visits its data once"
	hasTemplates  = "it visits its data once, and its templates have a time limit"
	countsSteps   = "expressions count their steps"
	waitsForHTTP  = "each request has a time limit, and they are counted"
	isGuarded     = "processors.timeout abandons it"
)

// bounds names for each processor why it ends.
var bounds = map[string]string{
	"aggregate": loopsOverData, "base64.decode": loopsOverData, "base64.encode": loopsOverData, "avro.decode": loopsOverData,
	"avro.encode": loopsOverData, "json.decode": loopsOverData, "json.encode": loopsOverData, "clone": loopsOverData,
	"split": loopsOverData, "dedupe": loopsOverData, "sample": loopsOverData, "throttle": loopsOverData, "filter": loopsOverData,
	"error": hasTemplates, "enrich.file": loopsOverData, "field.convert": loopsOverData, "field.exclude": loopsOverData, "field.include": loopsOverData,
	"field.mask": loopsOverData, "field.rename": loopsOverData, "field.set": hasTemplates, "unwrap.debezium": loopsOverData,
	"unwrap.kafkaconnect": loopsOverData, "unwrap.opencdc": loopsOverData, "expr.filter": countsSteps, "expr.map": countsSteps,
	"enrich.http": waitsForHTTP, "webhook.http": waitsForHTTP, "cohere.command": waitsForHTTP, "cohere.embed": waitsForHTTP,
	"cohere.rerank": waitsForHTTP, "ollama": waitsForHTTP, "openai.embeddings": waitsForHTTP, "openai.textgen": waitsForHTTP,
	"custom.javascript": isGuarded,
}

// Every processor is either bounded by itself, for a reason that is listed, or ended by processors.timeout.
func TestEveryProcessorIsBounded(t *testing.T) {
	t.Parallel()
	for _, p := range processor.Builtins() {
		reason := bounds[p.Name]
		if reason == "" {
			t.Errorf("%s: no reason is listed why Process returns", p.Name)
		}
		if p.Bounded == (reason == isGuarded) {
			t.Errorf("%s: Bounded is %v, but %s", p.Name, p.Bounded, reason)
		}
	}
}

// A processor that does not end by itself, or waits for something that does not come, ends.
func TestProcessorsEnd(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(service.Close)
	t.Cleanup(func() { close(silent) })
	const nested = "{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ end }}{{ end }}"
	for name, test := range map[string]struct {
		plugin   string
		settings map[string]string
		want     string // in the error of the record, or of the run
	}{
		"a loop of a script":    {"custom.javascript", map[string]string{"script": "function process(r) { for (;;) {} }", "timeout": "10s"}, "processors.timeout"},
		"a loop of a getter":    {"custom.javascript", map[string]string{"script": "function process(r) { r.Payload.After = { get x() { for (;;) {} } }; return r }", "timeout": "10ms"}, "10ms"},
		"a script with a limit": {"custom.javascript", map[string]string{"script": "function process(r) { for (;;) {} }", "timeout": "10ms"}, "10ms"},
		"a template":            {"field.set", map[string]string{"field": ".Payload.After.x", "value": nested}, "template"},
		"a template of error":   {"error", map[string]string{"message": nested}, "template"},
		"an expression": {"expr.filter", map[string]string{"expression": "all(1..1000, all(1..1000, all(1..1000, all(1..1000, true))))"},
			"memory budget exceeded"},
		"enrich.http":  {"enrich.http", map[string]string{"url": service.URL, "target": ".Payload.After.x", "timeout": "10ms"}, ""},
		"webhook.http": {"webhook.http", map[string]string{"request.url": service.URL, "response.body": ".Payload.After.x", "request.timeout": "10ms", "backoffRetry.count": "0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{{ID: "p", Plugin: test.plugin, Settings: test.settings}},
				processor.Options{Registry: &processor.Registry{Builtin: processor.Builtins()}, Timeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Teardown(context.Background()) })
			out, err := c.Process(t.Context(), "token", []record.Record{{Position: record.Position("1"),
				After: record.Structured(map[string]any{"text": "x"})}})
			if len(out.Refused) == 1 {
				err = out.Refused[0].Err
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it ended with %v, want %q", err, test.want)
			}
		})
	}
}
