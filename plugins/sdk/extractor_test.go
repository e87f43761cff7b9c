package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/google/go-cmp/cmp"
)

type object = map[string]any

// registry is a schema.Registry that counts calls and can fail.
type registry struct {
	schema.Memory
	created int
	err     error
}

func (r *registry) Create(ctx context.Context, subject string, typ schema.Type, text string) (schema.Schema, error) {
	if r.created++; r.err != nil {
		return schema.Schema{}, r.err
	}
	return r.Memory.Create(ctx, subject, typ, text)
}

// extract runs records through a standard source, and returns their schemas as
// "key/payload" with subject@version.
func extract(
	t *testing.T, reg *registry, settings map[string]string, records ...record.Record,
) (schemas []string, log string) {
	t.Helper()
	var text strings.Builder
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:c", Schemas: reg,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	f := &feed{}
	s := openSource(t, ctx, f, settings)
	f.reads <- answer{records: records}
	got, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		schemas = append(schemas, fmt.Sprintf("%s@%s/%s@%s", r.Metadata.Get(record.KeyKeySchemaSubject),
			r.Metadata.Get(record.KeyKeySchemaVersion),
			r.Metadata.Get(record.KeyPayloadSchemaSubject), r.Metadata.Get(record.KeyPayloadSchemaVersion)))
		if (r.Metadata.Get(record.KeyPayloadSchemaSubject) == "") !=
			(r.Metadata.Get(record.KeyPayloadSchemaVersion) == "") {
			t.Error("half a schema")
		}
		checkEncodes(t, reg, r)
	}
	return schemas, text.String()
}

// checkEncodes checks that the schemas named in r can encode it.
func checkEncodes(t *testing.T, reg *registry, r record.Record) {
	t.Helper()
	c := r.Clone()
	if c.Metadata.Get(record.KeyPayloadSchemaSubject) == "mine" {
		return
	}
	if err := (&schema.Cache{Registry: reg}).EncodeRecord(t.Context(), &c,
		schema.Parts{Key: true, Payload: true}); err != nil {
		t.Error(err)
	}
}

func after(m object) record.Record {
	return record.Record{Position: record.Position("1"), Operation: record.OperationCreate, After: record.Structured(m)}
}

func with(r record.Record, metadata ...string) record.Record {
	for i := 0; i < len(metadata); i += 2 {
		r.Metadata.Set(metadata[i], metadata[i+1])
	}
	return r
}

func TestExtraction(t *testing.T) {
	keyed := after(object{"a": 1})
	keyed.Key = record.Structured(object{"id": 1})
	deleted := record.Record{Position: record.Position("1"), Operation: record.OperationDelete,
		Before: record.Structured(object{"a": 1})}
	partial := after(object{"a": 1, "b": 2})
	partial.Before = record.Structured(object{"a": nil})
	raw := record.Record{Position: record.Position("1"), Key: record.Raw([]byte("k")), After: record.Raw([]byte("v"))}

	tests := map[string]struct {
		settings map[string]string
		records  []record.Record
		want     []string
		created  int
	}{
		"key and payload": {nil, []record.Record{keyed}, []string{"p:c:key@1/p:c:payload@1"}, 2},
		"key off": {map[string]string{"sdk.schema.extract.key.enabled": "false"}, []record.Record{keyed},
			[]string{"@/p:c:payload@1"}, 1},
		"payload off": {map[string]string{"sdk.schema.extract.payload.enabled": "false"}, []record.Record{keyed},
			[]string{"p:c:key@1/@"}, 1},
		"own names": {map[string]string{"sdk.schema.extract.key.subject": "k",
			"sdk.schema.extract.payload.subject": "v", "sdk.schema.context.name": "ctx"},
			[]record.Record{keyed}, []string{"ctx:k@1/ctx:v@1"}, 2},
		"no context": {map[string]string{"sdk.schema.context.enabled": "false", "sdk.schema.context.name": "x"},
			[]record.Record{keyed}, []string{"key@1/payload@1"}, 2},
		"raw":            {nil, []record.Record{raw}, []string{"@/@"}, 0},
		"delete":         {nil, []record.Record{deleted}, []string{"@/p:c:payload@1"}, 1},
		"partial before": {nil, []record.Record{partial}, []string{"@/p:c:payload@1"}, 1},
		"named by the connector": {nil, []record.Record{with(after(object{"a": 1}), record.KeyPayloadSchemaSubject,
			"mine", record.KeyPayloadSchemaVersion, "9")},
			[]string{"@/mine@9"}, 0},
		"one shape, once": {nil, []record.Record{after(object{"a": 1}), after(object{"a": int64(2)}),
			after(object{"a": uint8(3)})},
			[]string{"@/p:c:payload@1", "@/p:c:payload@1", "@/p:c:payload@1"}, 1},
		"durations and integers": {nil, []record.Record{after(object{"a": 1}), after(object{"a": time.Second}),
			after(object{"a": 2})},
			[]string{"@/p:c:payload@1", "@/p:c:payload@1", "@/p:c:payload@1"}, 2},
		"nil widens": {nil, []record.Record{after(object{"a": 1}), after(object{"a": nil}), after(object{"a": 1})},
			[]string{"@/p:c:payload@1", "@/p:c:payload@2", "@/p:c:payload@2"}, 2},
		"other fields, other version": {nil,
			[]record.Record{after(object{"a": 1}), after(object{"b": 1}), after(object{"a": 1})},
			[]string{"@/p:c:payload@1", "@/p:c:payload@2", "@/p:c:payload@1"}, 2},
		"before of another kind": {nil, []record.Record{after(object{"a": 1, "b": 2}), partial},
			[]string{"@/p:c:payload@1", "@/p:c:payload@2"}, 2},
		"in turns": {nil, []record.Record{after(object{"a": 1}), after(object{"b": 1}), after(object{"a": 1}),
			after(object{"b": 1})},
			[]string{"@/p:c:payload@1", "@/p:c:payload@2", "@/p:c:payload@1", "@/p:c:payload@2"}, 2},
		"collections": {nil, []record.Record{
			with(after(object{"a": 1}), record.KeyCollection, "users"),
			with(after(object{"b": 1}), record.KeyCollection, "jobs"),
			with(after(object{"a": 1}), record.KeyCollection, "users")},
			[]string{"@/p:c:users.payload@1", "@/p:c:jobs.payload@1", "@/p:c:users.payload@1"}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := &registry{}
			got, _ := extract(t, reg, test.settings, test.records...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if reg.created != test.created {
				t.Errorf("%d schemas created, want %d", reg.created, test.created)
			}
		})
	}
}

func TestExtractionGivesUp(t *testing.T) {
	var changing []record.Record
	for i := range 100 {
		changing = append(changing, after(object{fmt.Sprintf("f%d", i): 1}))
	}
	for name, test := range map[string]struct {
		records []record.Record
		created int
		log     string
	}{
		"no Avro name":    {[]record.Record{after(object{"a-b": 1}), after(object{"a-b": 2})}, 0, "not an Avro name"},
		"ever new fields": {changing, 64, "different sets of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			reg := &registry{}
			got, log := extract(t, reg, nil, test.records...)
			if got[len(got)-1] != "@/@" || reg.created != test.created {
				t.Errorf("got %v after %d schemas", got[len(got)-1], reg.created)
			}
			if strings.Count(log, "sending records without a schema") != 1 || !strings.Contains(log, test.log) {
				t.Errorf("logged %s", log)
			}
		})
	}
}

func TestExtractionFails(t *testing.T) {
	reg := &registry{err: errors.New("out of order")}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Schemas: reg})
	f := &feed{}
	s := openSource(t, ctx, f, nil)
	f.reads <- answer{records: []record.Record{after(object{"a": 1})}}
	if _, err := s.Read(ctx); !errors.Is(err, reg.err) || !strings.Contains(err.Error(), "payload") {
		t.Errorf("got %v", err)
	}
}

// loop is a source that returns the same records repeatedly, without schemas.
type loop struct {
	feed
	records []record.Record
	spare   []record.Field
}

func (l *loop) Read(context.Context) ([]record.Record, error) {
	for i := range l.records {
		l.records[i].Metadata = append(l.spare[6*i:6*i:6*i+6], record.Field{Key: record.KeyCreatedAt, Value: "1"})
	}
	return l.records, nil
}

func BenchmarkExtraction(b *testing.B) {
	for _, fields := range []int{2, 5} {
		b.Run(fmt.Sprint(fields, " fields"), func(b *testing.B) {
			l := &loop{spare: make([]record.Field, 6000)}
			for i := range 1000 {
				m := object{}
				for j, v := range []any{i, "text", time.Now(), true, 1.5}[:fields] {
					m[fmt.Sprint("field", j)] = v
				}
				l.records = append(l.records, after(m))
			}
			ctx := sdk.WithEnv(b.Context(), &sdk.Env{ConnectorID: "p:c", Schemas: &schema.Memory{}})
			s := sdk.Standard(sdk.Connector{NewSource: func() sdk.Source { return l }}).NewSource()
			if err := errors.Join(s.Configure(ctx, nil), s.Open(ctx, nil)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				rs, err := s.Read(ctx)
				if err != nil || rs[0].Metadata.Get(record.KeyPayloadSchemaVersion) != "1" {
					b.Fatal(rs[0], err)
				}
				n += len(rs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}

func BenchmarkPlainWrite(b *testing.B) {
	ctx := sdk.WithEnv(b.Context(), &sdk.Env{Schemas: &schema.Memory{}})
	d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination { return nothing{} }}).NewDestination()
	if err := errors.Join(d.Configure(ctx, nil), d.Open(ctx)); err != nil {
		b.Fatal(err)
	}
	async := d.(sdk.AsyncDestination)
	settled := func(int, error) {}
	for _, size := range []int{1, 1000} {
		rs := make([]record.Record, size)
		for i := range rs {
			rs[i] = with(after(object{"a": 1}), record.KeyPayloadSchemaSubject, "s", record.KeyPayloadSchemaVersion,
				"1")
			rs[i].Key = record.Raw([]byte("k"))
		}
		b.Run(fmt.Sprint(size, " records"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := d.Write(ctx, rs); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
		b.Run(fmt.Sprint(size, " records, async"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := async.WriteAsync(ctx, rs, settled); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type nothing struct{ sdk.DestinationBase }

func (nothing) Parameters() sdk.Parameters                               { return nil }
func (nothing) Configure(context.Context, map[string]string) error       { return nil }
func (nothing) Open(context.Context) error                               { return nil }
func (nothing) Write(_ context.Context, rs []record.Record) (int, error) { return len(rs), nil }
