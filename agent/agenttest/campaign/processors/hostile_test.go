package processors

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
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

// A hostile record costs each processor bounded memory, and the processor continues with the next record. The record is
// changed, dropped or refused, and never fails the pipeline.
func TestHostileRecords(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "["+strings.Repeat("{},", 1<<20)+"1]")
	}))
	t.Cleanup(service.Close)
	const descriptors = "../../../../plugins/processor/testdata/shop.binpb"
	set := func(plugin string, settings ...string) spec.Processor {
		p := spec.Processor{Plugin: plugin, Settings: map[string]string{}}
		for i := 0; i < len(settings); i += 2 {
			p.Settings[settings[i]] = settings[i+1]
		}
		return p
	}
	all := []spec.Processor{
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
		set("parse.csv", "field", ".Payload.After.text", "columns", "a,b", "extra", "keep", "missing",
			"null", "lazy", "true"),
		set("parse.kv", "field", ".Payload.After.text", "duplicates", "list"),
		set("parse.kv", "field", ".Payload.After.text", "pair-separator", ",", "key-separator", ":"),
		set("parse.regex", "field", ".Payload.After.text", "pattern", `(?P<a>(?:[{\[(4 ]*)*)(?P<b>.*)$`),
		set("parse.grok", "field", ".Payload.After.text", "pattern",
			`%{DATA:a}(?:%{QUOTEDSTRING:b}|%{URI:c})*%{GREEDYDATA:d}`),
		set("protobuf.decode", "field", ".Payload.After.text", "descriptors", descriptors, "message", "shop.Order",
			"unknown", "keep"),
		set("protobuf.encode", "descriptors", descriptors, "message", "shop.Order", "unknown", "drop"),
		set("parse.syslog", "field", ".Payload.After.text"),
		set("parse.xml", "field", ".Payload.After.text"),
		set("parse.time", "field", ".Payload.After.text", "formats", "%Y|unix|rfc3339|%A %B %s"),
		set("parse.url", "field", ".Payload.After.text"),
		set("webhook.http", "request.url", service.URL, "response.body", ".Payload.After.text"),
		set("enrich.http", "url", service.URL, "maxBytes", "8388608", "target", ".Payload.After.x"),
	}
	flat := make([]any, 200_000)
	for i := range flat {
		flat[i] = float64(i)
	}
	deep := any("x")
	for range 900 {
		deep = []any{deep}
	}
	hostile := map[string]func() map[string]any{
		"objects in JSON": func() map[string]any {
			return map[string]any{"text": "[" + strings.Repeat("{},", 1<<19) + "1]", "list": flat}
		},
		"members in JSON": func() map[string]any {
			return map[string]any{"text": `{"payload":[` + strings.Repeat(`{"a":1},`, 1<<18) + "1]}",
				"list": []any{deep}}
		},
		"lists in JSON": func() map[string]any {
			return map[string]any{"text": strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19), "list": flat}
		},
		"a long text": func() map[string]any {
			return map[string]any{"text": strings.Repeat("4111111111111111 ", 1<<15), "list": []any{deep, deep}}
		},
		"base64": func() map[string]any {
			return map[string]any{"text": base64.StdEncoding.EncodeToString(make([]byte, 1<<20)), "list": flat}
		},
	}
	const budget, most = 16 << 20, 512 << 20
	for i, declared := range all {
		for name, data := range hostile {
			t.Run(fmt.Sprint(i, declared.Plugin, "/", name), func(t *testing.T) {
				declared.ID = "p"
				c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{declared}, processor.Options{
					Registry: &processor.Registry{Builtin: processors.All()}, Budget: budget, StateDir: t.TempDir(),
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
