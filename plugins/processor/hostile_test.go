package processor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Every processor that parses JSON of a record stays within the budget of the chain.
func TestJSONIsReadWithinTheBudget(t *testing.T) {
	t.Parallel()
	text := `{"payload":[` + strings.Repeat("{},", 50_000) + "1]}"
	for plugin, settings := range map[string]map[string]string{
		"json.decode":         {"field": ".Payload.After.text"},
		"field.set":           {"field": ".Payload.After.x", "value": "{{ .Payload.After.text }}", "type": "json"},
		"unwrap.debezium":     {"field": ".Payload.After.text"},
		"unwrap.kafkaconnect": {"field": ".Payload.After.text"},
		"unwrap.opencdc":      {"field": ".Payload.After.text"},
	} {
		c, err := processor.Open(t.Context(), "pipeline",
			[]spec.Processor{{ID: "p", Plugin: plugin, Settings: settings}}, processor.Options{
				Registry: &processor.Registry{Builtin: processors.All()}, Budget: 1 << 20, StateDir: t.TempDir(),
				Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Teardown(context.Background()) })
		out, err := c.Process(t.Context(), "token",
			[]record.Record{{Position: record.Position("1"), After: record.Structured(map[string]any{"text": text})}})
		if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), "memory") {
			t.Errorf("%s: refusals are %.300v (%v), want one for its memory", plugin, out.Refused, err)
		}
	}
}

// Every parser stays within the budget of the chain.
func TestTextIsParsedWithinTheBudget(t *testing.T) {
	t.Parallel()
	for plugin, c := range map[string]struct {
		text     string
		settings map[string]string
	}{
		"parse.csv":    {strings.Repeat(",", 50_000), map[string]string{"columns": "a", "extra": "keep"}},
		"parse.syslog": {"<1>1 - - - - - [a" + strings.Repeat(` a=""`, 50_000) + "]", map[string]string{}},
		"parse.url":    {"/?" + strings.Repeat("a&", 50_000), map[string]string{}},
		"parse.xml":    {"<a>" + strings.Repeat("<b/>", 50_000) + "</a>", map[string]string{}},
		"parse.kv":     {strings.Repeat("a ", 50_000), map[string]string{"duplicates": "list"}},
		"protobuf.decode": {strings.Repeat("\"\x00", 50_000),
			map[string]string{"descriptors": "testdata/shop.binpb", "message": "shop.Order"}},
	} {
		c.settings["field"] = ".Payload.After.text"
		p, err := processor.Open(t.Context(), "pipeline",
			[]spec.Processor{{ID: "p", Plugin: plugin, Settings: c.settings}}, processor.Options{
				Registry: &processor.Registry{Builtin: processors.All()}, Budget: 1 << 20, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Teardown(context.Background()) })
		out, err := p.Process(t.Context(), "token", []record.Record{{Position: record.Position("1"),
			After: record.Structured(map[string]any{"text": c.text})}})
		if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), "memory") {
			t.Errorf("%s: refusals are %.300v (%v), want one for its memory", plugin, out.Refused, err)
		}
	}
}

// The response to a webhook stays within the budget of the chain, whatever size its setting allows.
func TestAnswersAreReadWithinTheBudget(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2<<20))
	}))
	t.Cleanup(service.Close)
	c, err := processor.Open(t.Context(), "pipeline",
		[]spec.Processor{{ID: "p", Plugin: "webhook.http", Settings: map[string]string{
			"request.url": service.URL, "response.body": ".Payload.After.x", "response.maxBytes": "1000000000000"}}},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Teardown(context.Background()) })
	out, err := c.Process(t.Context(), "token",
		[]record.Record{{Position: record.Position("1"), After: record.Structured(map[string]any{"text": "x"})}})
	if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), "more than 1048576 bytes") {
		t.Errorf("refusals are %.300v (%v), want one for the bytes of the answer", out.Refused, err)
	}
}
