package processors

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// nulls is a schema of a record with n fields that encode to no bytes.
func nulls(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"record","name":"r","fields":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"f%d","type":"null"}`, i)
	}
	return b.String() + "]}"
}

// Each processor whose output is much larger than its input passes a batch of small records on in parts: no part takes
// much more memory than the limit of a batch, no record is refused that is small enough alone, and all keep their
// order.
func TestBatchMemory(t *testing.T) {
	const (
		count = 8192
		most  = 32 << 20 // limit of a batch
		times = 8        // allocations per part may reach this multiple: garbage, and memory that is not estimated
	)
	large := strings.Repeat("x", 16<<10)
	list := "[" + strings.Repeat("[],", 500) + "0]"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%q", large)
	}))
	defer server.Close()
	table := filepath.Join(t.TempDir(), "table.csv")
	header, row := "k", "1"
	for i := range 300 {
		header, row = header+fmt.Sprint(",c", i), row+",value"
	}
	if err := os.WriteFile(table, []byte(header+"\n"+row+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	schemas := &schema.Cache{Registry: &schema.Memory{}}
	wide, err := schemas.Create(t.Context(), "wide", schema.TypeAvro, nulls(500))
	if err != nil {
		t.Fatal(err)
	}
	settings := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	text := func(s string) record.Data { return record.Structured(map[string]any{"k": "1", "s": s}) }
	named := record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "wide",
		record.KeyPayloadSchemaVersion: "1"})
	script := settings("script", `function process(r) { r.Payload.After = {s: "x".repeat(16384)}; return r }`)
	for name, test := range map[string]struct {
		plugin   string
		settings map[string]string
		after    record.Data
		metadata record.Metadata
		pieces   int // per record; 0: one
		slow     bool
	}{
		"a schema that is read for a condition": {"filter", nil, record.Raw([]byte{}), named, 0, false},
		"avro.decode": {"avro.decode", settings("field", ".Payload.After"),
			record.Raw([]byte{0, 0, 0, 0, byte(wide.ID)}), nil, 0, false},
		"json.decode": {"json.decode", settings("field", ".Payload.After.s"), text(list), nil, 0, false},
		"field.set": {"field.set", settings("field", ".Payload.After.s", "value",
			`{{ repeat 16384 .Payload.After.k }}`), text(""), nil, 0, false},
		"field.set, JSON": {"field.set", settings("field", ".Payload.After.s", "value", list, "type", "json"),
			text(""), nil, 0, false},
		"expr.map": {"expr.map", settings("mapping", `.Payload.After.s = repeat(after.k, 16384)`), text(""),
			nil, 0, false},
		"clone": {"clone", settings("count", "19"), text(""), nil, 20, false},
		"split": {"split", settings("field", ".Payload.After.l"),
			record.Structured(map[string]any{"l": []any{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, "t": large[:2048]}),
			nil, 8, false},
		"unwrap.opencdc": {"unwrap.opencdc", settings("field", ".Payload.After"),
			record.Raw([]byte(`{"operation":"create","metadata":{},"payload":{"before":null,"after":{"l":` + list +
				`}}}`)), nil, 0, false},
		"enrich.file": {"enrich.file", settings("path", table, "key", ".Payload.After.k"), text(""), nil, 0,
			false},
		"webhook.http": {"webhook.http", settings("request.url", server.URL, "response.body", ".Payload.After.s"),
			text(""), nil, 0, true},
		"a script": {"custom.javascript", script, text(""), nil, 0, true},
		"pieces, a script": {"custom.javascript",
			settings("script", `function process(r) { return new Array(20).fill(r) }`), text(""), nil, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := spec.Processor{ID: "p", Plugin: test.plugin, Settings: test.settings}
			if test.plugin == "filter" {
				p.Condition = `{{ ne .Payload.After.f0 nil }}`
			}
			c, err := processor.Open(t.Context(), "pipeline", []spec.Processor{p}, processor.Options{
				Registry: &processor.Registry{Builtin: processors.All()}, Schemas: schemas, Budget: 4 * most})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Teardown(context.Background()) })
			records := make([]record.Record, count)
			for i := range records {
				records[i] = record.Record{Position: fmt.Append(nil, i), Operation: record.OperationCreate,
					Metadata: test.metadata.Clone(), After: test.after.Clone()}
			}
			pieces, next, parts := max(1, test.pieces), 0, 0
			check := func(got []record.Record) {
				for i := range got {
					if want := fmt.Sprint(next / pieces); string(got[i].Position) != want {
						t.Fatalf("record %s follows, want %s", got[i].Position, want)
					}
					next++
				}
			}
			token := any("token")
			for more := true; more; more = c.Unfinished() {
				before := allocated()
				out, err := c.Process(t.Context(), token, records)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range out.Refused {
					t.Fatalf("record %s is refused: %v", r.Record.Position, r.Err)
				}
				if n := allocated() - before; n > times*most && !test.slow {
					t.Errorf("part %d allocates %d MiB", parts, n>>20)
				}
				if n := memoryOf(out); n > 2*most {
					t.Errorf("part %d takes %d MiB", parts, n>>20)
				}
				check(out.Records)
				for _, e := range out.Emitted {
					check(e.Records)
				}
				token, records = nil, nil
				parts++
			}
			if next != count*pieces {
				t.Errorf("%d records went on, want %d", next, count*pieces)
			}
			if parts < 2 || c.Holding() != 0 || !c.Deadline().IsZero() {
				t.Errorf("%d parts, %d records are held, deadline %v", parts, c.Holding(), c.Deadline())
			}
		})
	}
}

// memoryOf returns how many bytes the records of out take.
func memoryOf(out connector.Outcome) (n int) {
	for i := range out.Records {
		n += out.Records[i].Memory()
	}
	for _, e := range out.Emitted {
		for i := range e.Records {
			n += e.Records[i].Memory()
		}
	}
	return n
}
