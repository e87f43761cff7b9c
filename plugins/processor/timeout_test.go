package processor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// never blocks a processor.
type never struct{ ended chan struct{} }

// wait ignores ctx, as a system call or a loop does.
func (n never) wait() { <-n.ended }

// blockedClock blocks once its processor is open.
type blockedClock struct {
	never
	open bool
}

func (c *blockedClock) Now() time.Time {
	if c.open {
		c.wait()
	}
	return time.Now()
}

func (c *blockedClock) Sleep(context.Context, time.Duration) error { return nil }

// blockedRegistry returns only when the context ends.
type blockedRegistry struct{ schema.Memory }

func (*blockedRegistry) ByID(ctx context.Context, _ int) (schema.Schema, error) {
	<-ctx.Done()
	return schema.Schema{}, ctx.Err()
}

func (*blockedRegistry) Create(ctx context.Context, _ string, _ schema.Type, _ string) (schema.Schema, error) {
	<-ctx.Done()
	return schema.Schema{}, ctx.Err()
}

func (*blockedRegistry) Get(ctx context.Context, _ string, _ int) (schema.Schema, error) {
	<-ctx.Done()
	return schema.Schema{}, ctx.Err()
}

// blocked is a processor that does not return from Process.
type blocked struct {
	sdk.Processor
	never
}

func (p *blocked) Process(_ context.Context, b *sdk.ProcessBatch) error {
	b.Record(0)
	p.wait()
	return nil
}

// withBlocked returns the registry of all processors. Processors with this name block.
func withBlocked(name string, n never) *processor.Registry {
	all := slices.Clone(processors.All())
	for i, p := range all {
		if p.Name == name {
			all[i].New = func() sdk.Processor { return &blocked{p.New(), n} }
		}
	}
	return &processor.Registry{Builtin: all}
}

const (
	endlessTemplate   = "{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}"
	endlessExpression = "all(1..900000, len(uniq(after.list[0:40])) >= 0)"
	endlessScript     = "function process(r) { for (;;) {} }"
)

// A timeoutCase makes a processor take forever.
type timeoutCase struct {
	settings  map[string]string
	condition string
	raw       string // raw payload; empty: an object
	real      bool   // it computes or waits for the network, so time is not virtual
	waits     bool   // it waits for the network

	inProcess bool // Process blocks, because the processor calls nothing that can block
	clock     bool // its clock blocks
	registry  bool // the schema registry blocks, until its context ends

	refused bool // the record is refused and the next one passes; otherwise the run ends
}

// timeoutCases returns a case for every processor.
func timeoutCases(service string) map[string]timeoutCase {
	cases := map[string]timeoutCase{
		"aggregate": {clock: true}, "dedupe": {clock: true}, "throttle": {clock: true}, "enrich.file": {clock: true},
		"protobuf.decode": {clock: true, settings: set("descriptors", "testdata/shop.binpb", "message", "shop.Order")},
		"protobuf.encode": {clock: true, settings: set("descriptors", "testdata/shop.binpb", "message", "shop.Order")},
		"avro.decode":     {registry: true, settings: set("field", ".Payload.After"), raw: "\x00\x00\x00\x00\x07x"},
		"avro.encode": {registry: true, settings: set("schema.strategy", "autoRegister", "schema.autoRegister.subject",
			"s")},

		"error": {real: true, refused: true, settings: set("message", endlessTemplate)},
		"field.set": {real: true, refused: true,
			settings: set("field", ".Payload.After.x", "value", endlessTemplate)},
		"expr.filter": {real: true, refused: true, settings: set("expression", endlessExpression)},
		"expr.map":    {real: true, refused: true, settings: set("mapping", ".Payload.After.x = "+endlessExpression)},
		"custom.javascript": {real: true, refused: true,
			settings: set("script", endlessScript, "timeout", "10s")},

		"enrich.http": {settings: set("url", service, "timeout", "1h")},
		"webhook.http": {settings: set("request.url", service, "response.body", ".Payload.After.x", "request.timeout",
			"1h")},
		"ollama": {settings: set("url", service, "timeout", "1h")},
		"openai.textgen": {settings: set("base_url", service, "api_key", "k", "model", "m", "developer_message", "d",
			"timeout", "1h")},
		"openai.embeddings": {settings: set("base_url", service, "api_key", "k", "model", "m", "encoding_format",
			"float",
			"timeout", "1h")},
		"cohere.command": {settings: set("baseURL", service, "apiKey", "k", "prompt", "p", "timeout", "1h")},
		"cohere.embed": {settings: set("baseURL", service, "apiKey", "k", "maxTextsPerRequest", "1", "timeout",
			"1h")},
		"cohere.rerank": {settings: set("baseURL", service, "apiKey", "k", "query", "q", "timeout", "1h")},
	}
	for name, c := range cases {
		if strings.Contains(fmt.Sprint(c.settings), service) {
			c.real, c.waits, c.refused = true, true, true
			cases[name] = c
		}
	}
	for _, name := range []string{"base64.decode", "base64.encode", "json.decode", "json.encode", "clone", "split",
		"sample",
		"filter", "field.convert", "field.exclude", "field.include", "field.mask", "field.rename",
		"parse.csv", "parse.grok", "parse.kv", "parse.regex", "parse.syslog", "parse.time", "parse.url",
		"parse.xml",
		"unwrap.debezium", "unwrap.kafkaconnect",
		"unwrap.opencdc"} {
		cases[name] = timeoutCase{inProcess: true}
	}
	cases["filter with a condition"] = timeoutCase{real: true, refused: true, condition: endlessTemplate + "true"}
	cases["filter with a condition on a schema"] = timeoutCase{registry: true,
		condition: `{{ eq .Payload.After.x "y" }}`,
		raw:       "encoded"}
	return cases
}

func set(settings ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		m[settings[i]] = settings[i+1]
	}
	return m
}

// Every processor and every condition that exceeds processors.timeout for a record ends, whatever it waits for or
// computes: either its record is refused and the next one passes, or the run ends. A new processor needs a case.
func TestEveryProcessorEnds(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	t.Cleanup(service.Close)
	t.Cleanup(func() { close(silent) })
	cases := timeoutCases(service.URL)
	for _, p := range processors.All() {
		if _, ok := cases[p.Name]; !ok {
			t.Errorf("%s has no case", p.Name)
		}
	}
	for name, c := range cases {
		if c.computes() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.waits {
				c.run(t, name, shortLimit)
				return
			}
			synctest.Test(t, func(t *testing.T) { c.run(t, name, 30*time.Second) })
		})
	}
}

// shortLimit is the time limit of processors whose time is not virtual.
const shortLimit = 40 * time.Millisecond

// A processor that computes ends soon after its time limit, in the CPU time within which the chain would otherwise end
// the run. The test is not parallel, because it measures the CPU time of the process.
func TestComputationsEnd(t *testing.T) {
	const most = 2 * (shortLimit + time.Second) // of two records
	for name, c := range timeoutCases("http://127.0.0.1:1") {
		if !c.computes() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if took := wait.ProcessCPUTime(func() { c.run(t, name, shortLimit) }); took > most {
				t.Errorf("it took %v of CPU time, want at most %v", took, most)
			}
		})
	}
}

// computes reports whether the processor of c is busy until it is interrupted.
func (c timeoutCase) computes() bool { return c.real && !c.waits }

// run lets the processor of a case reach its time limit.
func (c timeoutCase) run(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	plugin, _, _ := strings.Cut(name, " ")
	if c.settings == nil {
		c.settings = examplesOf(t, plugin)[0].Settings
	}
	declared := spec.Processor{ID: "x", Plugin: plugin, Settings: c.settings, Condition: c.condition}
	n := never{make(chan struct{})}
	o := processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Timeout: limit,
		Schemas: &schema.Memory{}, StateDir: t.TempDir()}
	clock := &blockedClock{never: n}
	switch {
	case c.inProcess:
		o.Registry = withBlocked(declared.Plugin, n)
	case c.clock:
		o.Clock = clock
	case c.registry:
		o.Schemas = &blockedRegistry{}
	}
	chain, err := processor.Open(t.Context(), "p", []spec.Processor{declared}, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.real { // however late the processor gets a CPU, it is the processor that refuses the record
		chain.CheckEvery(wait.Limit)
	}
	clock.open = true
	start := time.Now()
	out, err := chain.Process(t.Context(), "token", []record.Record{c.record(), c.record()})
	if took := time.Since(start); !c.real && (took < limit || took > limit+5*time.Second) {
		t.Errorf("it ended after %s, want it a little after %s", took, limit)
	}
	if c.refused {
		if err != nil || len(out.Refused) != 2 {
			t.Fatalf("it ended with %v and %d records refused, want both to be", err, len(out.Refused))
		}
		err = out.Refused[1].Err
	} else if err == nil || !strings.Contains(err.Error(), "p:x: ") && !c.registry {
		t.Errorf("the run ended with %v, want the name of the processor", err)
	}
	if want := fmt.Sprintf("it took longer than %s (processors.timeout)", limit); err == nil ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "raise processors.timeout") {
		t.Errorf("it ended with %v, want %q", err, want)
	}
	close(n.ended)
	if err := chain.Teardown(context.Background()); err != nil {
		t.Error(err)
	}
}

func (c timeoutCase) record() record.Record {
	r := record.Record{Position: record.Position("1"), Operation: record.OperationCreate}
	list := make([]any, 300)
	for i := range list {
		list[i] = float64(i)
	}
	r.After = record.Structured(map[string]any{"text": "x", "list": list})
	if c.raw != "" {
		r.After = record.Raw([]byte(c.raw))
	}
	if c.condition != "" {
		r.Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
			record.KeyPayloadSchemaVersion: "7"})
	}
	return r
}

// processors.timeout applies to each record: a batch may take much longer, but a loop without progress may not.
func TestTimeIsForEachRecord(t *testing.T) {
	const limit, records = 30 * time.Second, 100
	sleep := func(ctx context.Context) error { return sdk.Sleep(ctx, limit-time.Second) }
	for name, c := range map[string]struct {
		process func(ctx context.Context, b *sdk.ProcessBatch) error
		ends    bool // ends with the error that names the limit
	}{
		"each record takes nearly as long": {func(ctx context.Context, b *sdk.ProcessBatch) error {
			for range b.Records(ctx) {
				time.Sleep(limit - time.Second)
			}
			return ctx.Err()
		}, false},
		"by number": {func(_ context.Context, b *sdk.ProcessBatch) error {
			for i := range b.Len() {
				b.Record(i)
				time.Sleep(limit - time.Second)
			}
			return nil
		}, false},
		"all together, and then each alone": {func(ctx context.Context, b *sdk.ProcessBatch) error {
			for range b.Records(ctx) {
			}
			for range 1 + b.Len() {
				if err := sdk.InTime(ctx, sleep); err != nil {
					return err
				}
			}
			return nil
		}, false},
		"the same record for ever": {func(ctx context.Context, b *sdk.ProcessBatch) error {
			for ctx.Err() == nil {
				b.Record(0)
				time.Sleep(time.Second)
			}
			return ctx.Err()
		}, true},
		"beginning for ever": {func(ctx context.Context, _ *sdk.ProcessBatch) error {
			for ctx.Err() == nil {
				_ = sdk.InTime(ctx, sleep)
			}
			return ctx.Err()
		}, true},
		"a record takes longer": {func(ctx context.Context, b *sdk.ProcessBatch) error {
			b.Record(1)
			<-ctx.Done()
			return ctx.Err()
		}, true},
		"what a record waits for takes longer": {func(ctx context.Context, _ *sdk.ProcessBatch) error {
			return sdk.InTime(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}, true},
	} {
		for _, workers := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " with workers ", workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					chain := chainOf(t, processor.Options{Timeout: limit},
						stage{name: "x", workers: workers, process: c.process})
					out, err := chain.Process(t.Context(), 1, recordsOf(make([]string, records)...))
					if c.ends {
						if err == nil || !strings.Contains(err.Error(), "30s (processors.timeout)") {
							t.Errorf("it ended with %v", err)
						}
					} else if err != nil || len(out.Records) != records {
						t.Errorf("%d records pass, %v", len(out.Records), err)
					}
					if err := chain.Teardown(context.Background()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// observing is a processor that holds its records, and blocks in the other calls of a chain.
type observing struct {
	scripted
	never
}

func (p *observing) Committed(context.Context, []any) error { p.wait(); return nil }

func (p *observing) Release(context.Context, *sdk.ProcessBatch) error { p.wait(); return nil }

// Every call of a chain ends, and the processors that are not in a call are torn down at once.
func TestEveryCallEnds(t *testing.T) {
	for name, call := range map[string]func(*processor.Chain) error{
		"Committed": func(c *processor.Chain) error { return c.Committed(context.Background(), []any{1}) },
		"Release": func(c *processor.Chain) error {
			_, err := connector.ChainReleaser(c).Release(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, ended, otherEnded := never{make(chan struct{})}, 0, 0
				hold := func(_ context.Context, b *sdk.ProcessBatch) error { b.Hold(0); return nil }
				pass := func(context.Context, *sdk.ProcessBatch) error { return nil }
				o := processor.Options{Timeout: 30 * time.Second,
					Registry: &processor.Registry{Builtin: []sdk.ProcessorPlugin{
						{Name: "x", Version: "v1.0.0", New: func() sdk.Processor {
							return &observing{scripted{process: hold, ended: &ended}, n}
						}},
						{Name: "other", Version: "v1.0.0", New: func() sdk.Processor {
							return &scripted{process: pass, ended: &otherEnded}
						}},
					}}}
				c, err := processor.Open(t.Context(), "p",
					[]spec.Processor{{ID: "x", Plugin: "x"}, {ID: "other", Plugin: "other"}}, o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Process(t.Context(), 1, recordsOf("a")); err != nil {
					t.Fatal(err)
				}
				if err := call(c); err == nil ||
					!strings.Contains(err.Error(), "p:x: it took longer than 30s (processors.timeout)") {
					t.Errorf("it ended with %v", err)
				}
				if _, err := c.Process(t.Context(), 2, recordsOf("a")); err == nil {
					t.Error("another call is accepted")
				}
				if err := c.Teardown(context.Background()); err != nil || ended != 0 || otherEnded != 1 {
					t.Errorf("Teardown: %v; %d and %d are ended, want 0 and 1", err, ended, otherEnded)
				}
				close(n.ended)
				synctest.Wait()
				if ended != 1 {
					t.Errorf("the processor that returned late is ended %d times", ended)
				}
			})
		})
	}
}

// A forced stop ends a chain that ignores it.
func TestForcedStopLeavesAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := never{make(chan struct{})}
		c := chainOf(t, processor.Options{Timeout: time.Hour},
			stage{name: "x", process: func(context.Context, *sdk.ProcessBatch) error {
				n.wait()
				return nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if _, err := c.Process(ctx, 1, recordsOf("a")); err == nil || time.Since(start) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		close(n.ended)
		if err := c.Teardown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
