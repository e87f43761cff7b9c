package processor_test

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

var hostileSize = flag.Int("hostile", 1, "MiB that a chain may take whose records are made to take more")

// A hostile record costs each processor bounded memory, and the processor continues with the next record. The record is
// changed, dropped or refused, and never fails the pipeline.
func TestHostileRecords(t *testing.T) {
	size := *hostileSize << 15 // of what a record has, in entries
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "["+strings.Repeat("{},", 2*size)+"1]")
	}))
	t.Cleanup(service.Close)
	set := func(plugin string, settings ...string) spec.Processor {
		p := spec.Processor{Plugin: plugin, Settings: map[string]string{}}
		for i := 0; i < len(settings); i += 2 {
			p.Settings[settings[i]] = settings[i+1]
		}
		return p
	}
	processors := []spec.Processor{
		set("base64.decode", "field", ".Payload.After.text"), set("base64.encode", "field", ".Payload.After.text"),
		set("json.decode", "field", ".Payload.After.text"), set("json.encode", "field", ".Payload.After.list"),
		set("clone", "count", "10000"), set("split", "field", ".Payload.After.list"),
		set("dedupe", "key", ".Payload.After.list"),
		set("sample", "ratio", "0.5", "key", ".Payload.After.text"), set("filter"), set("error"),
		set("field.convert", "field", ".Payload.After.text", "type", "int"),
		set("field.exclude", "fields", ".Metadata"),
		set("field.mask", "patterns", "card,email"), set("field.rename", "mapping", ".Payload.After.text:other"),
		set("field.set", "field", ".Payload.After.x", "value", "{{ .Payload.After.list | toJson | splitList \",\" "+
			"| len }}"),
		set("field.set", "field", ".Payload.After.x", "value", "{{ fromJson .Payload.After.text | toPrettyJson }}"),
		set("expr.map", "mapping", ".Payload.After.x = string(after.list) + join(map(after.list, string(#)), "+
			"after.text)"),
		set("expr.map", "mapping", ".Payload.After.x = fromJSON(after.text)"),
		set("expr.filter", "expression", "len(uniq(after.list)) > 1 or len(after.text + after.text) > 1"),
		set("custom.javascript", "script", "function process(r) { let a = r.Payload.After; a.x = JSON.parse(a.text); "+
			"a.y = JSON.stringify(a.list); a.z = String(a.list); return new Array(1e5).fill(r) }"),
		set("unwrap.debezium", "field", ".Payload.After.text"), set("unwrap.opencdc", "field", ".Payload.After.text"),
		set("unwrap.kafkaconnect", "field", ".Payload.After.text"),
		set("webhook.http", "request.url", service.URL, "response.body", ".Payload.After.text"),
		set("enrich.http", "url", service.URL, "maxBytes", "8388608", "target", ".Payload.After.x"),
	}
	flat := make([]any, size*2/5)
	for i := range flat {
		flat[i] = float64(i)
	}
	deep := any("x")
	for range 900 {
		deep = []any{deep}
	}
	hostile := map[string]func() map[string]any{
		"objects in JSON": func() map[string]any {
			return map[string]any{"text": "[" + strings.Repeat("{},", size) + "1]", "list": flat}
		},
		"members in JSON": func() map[string]any {
			return map[string]any{"text": `{"payload":[` + strings.Repeat(`{"a":1},`, size/2) + "1]}",
				"list": []any{deep}}
		},
		"lists in JSON": func() map[string]any {
			return map[string]any{"text": strings.Repeat("[", size) + strings.Repeat("]", size), "list": flat}
		},
		"a long text": func() map[string]any {
			return map[string]any{"text": strings.Repeat("4111111111111111 ", size/16), "list": []any{deep, deep}}
		},
		"base64": func() map[string]any {
			return map[string]any{"text": base64.StdEncoding.EncodeToString(make([]byte, 2*size)), "list": flat}
		},
	}
	budget, most := *hostileSize<<20, uint64(*hostileSize)<<25
	for i, declared := range processors {
		for name, data := range hostile {
			t.Run(fmt.Sprint(i, declared.Plugin, "/", name), func(t *testing.T) {
				declared.ID = "p"
				c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{declared}, processor.Options{
					Registry: &processor.Registry{Builtin: processor.Builtins()}, Budget: budget, StateDir: t.TempDir(),
					Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Teardown(context.Background()) })
				records := []record.Record{{Position: record.Position("1"), Metadata: fields(1000),
					After: record.Structured(data())}}
				before := allocated()
				if _, err := c.Process(t.Context(), "token", records); err != nil {
					t.Errorf("the pipeline fails: %.300v", err)
				}
				if n := allocated() - before; n > most {
					t.Errorf("%d MiB were allocated, at most %d may be", n>>20, most>>20)
				}
			})
		}
	}
}

// Whatever reads JSON that is in a record does so within the budget of the chain.
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
		c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{{ID: "p", Plugin: plugin, Settings: settings}}, processor.Options{
			Registry: &processor.Registry{Builtin: processor.Builtins()}, Budget: 1 << 20, StateDir: t.TempDir(), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Teardown(context.Background()) })
		out, err := c.Process(t.Context(), "token", []record.Record{{Position: record.Position("1"), After: record.Structured(map[string]any{"text": text})}})
		if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), "memory") {
			t.Errorf("%s: refusals are %.300v (%v), want one for its memory", plugin, out.Refused, err)
		}
	}
}

// An answer to a webhook is read within the budget of the chain, however many bytes its setting allows.
func TestAnswersAreReadWithinTheBudget(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2<<20))
	}))
	t.Cleanup(service.Close)
	c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{{ID: "p", Plugin: "webhook.http", Settings: map[string]string{
		"request.url": service.URL, "response.body": ".Payload.After.x", "response.maxBytes": "1000000000000"}}},
		processor.Options{Registry: &processor.Registry{Builtin: processor.Builtins()}, Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Teardown(context.Background()) })
	out, err := c.Process(t.Context(), "token", []record.Record{{Position: record.Position("1"), After: record.Structured(map[string]any{"text": "x"})}})
	if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), "more than 1048576 bytes") {
		t.Errorf("refusals are %.300v (%v), want one for the bytes of the answer", out.Refused, err)
	}
}
