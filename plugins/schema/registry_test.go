package schema_test

import (
	"context"
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

func TestMemory(t *testing.T) {
	var m schema.Memory
	a, b := field(`"long"`), field(`"string"`)
	for i, step := range []struct {
		subject, text string
		version, id   int
	}{
		{"s", a, 1, 1}, {"s", b, 2, 2}, {"s", a, 1, 1}, {"t", b, 1, 2}, {"t", a, 2, 1},
	} {
		s, err := m.Create(t.Context(), step.subject, schema.TypeAvro, step.text)
		want := schema.Schema{Subject: step.subject, Version: step.version, ID: step.id, Type: schema.TypeAvro,
			Text: step.text}
		if err != nil || s != want {
			t.Errorf("step %d: got %v, %v", i, s, err)
		}
		if got, err := m.Get(t.Context(), step.subject, step.version); err != nil || got != want {
			t.Errorf("step %d: Get returned %v, %v", i, got, err)
		}
	}
	if _, err := m.Get(t.Context(), "x", 1); !errors.Is(err, schema.ErrSubjectNotFound) {
		t.Error(err)
	}
	for _, v := range []int{0, 3, -1} {
		if _, err := m.Get(t.Context(), "s", v); !errors.Is(err, schema.ErrVersionNotFound) {
			t.Error(err)
		}
	}
	for typ, text := range map[schema.Type]string{schema.TypeAvro: "nonsense", 0: a} {
		if _, err := m.Create(t.Context(), "s", typ, text); !errors.Is(err, schema.ErrInvalidSchema) {
			t.Error(err)
		}
	}
}

// counting counts the requests to the registry, and fails while broken.
type counting struct {
	schema.Memory
	calls  int
	broken error
}

func (c *counting) Create(ctx context.Context, subject string, typ schema.Type, text string) (schema.Schema, error) {
	if c.calls++; c.broken != nil {
		return schema.Schema{}, c.broken
	}
	return c.Memory.Create(ctx, subject, typ, text)
}

func (c *counting) Get(ctx context.Context, subject string, version int) (schema.Schema, error) {
	if c.calls++; c.broken != nil {
		return schema.Schema{}, c.broken
	}
	return c.Memory.Get(ctx, subject, version)
}

func TestCacheAsksOnce(t *testing.T) {
	reg := &counting{broken: errors.New("out of order")}
	cache := &schema.Cache{Registry: reg}
	if _, err := cache.Create(t.Context(), "s", schema.TypeAvro, field(`"long"`)); !errors.Is(err, reg.broken) {
		t.Fatal(err)
	}
	reg.broken, reg.calls = nil, 0
	for range 3 {
		if s, err := cache.Create(t.Context(), "s", schema.TypeAvro, field(`"long"`)); err != nil || s.Version != 1 {
			t.Fatal(s, err)
		}
		if s, err := cache.Get(t.Context(), "s", 1); err != nil || s.Version != 1 {
			t.Fatal(s, err)
		}
	}
	if reg.calls != 2 {
		t.Errorf("%d calls reached the registry, want 2", reg.calls)
	}
}

func TestEncodeAndDecodeRecord(t *testing.T) {
	reg := &counting{}
	cache := &schema.Cache{Registry: reg}
	for subject, typ := range map[string]string{"k": `"string"`, "p": `["null","long"]`} {
		if _, err := cache.Create(t.Context(), subject, schema.TypeAvro, field(typ)); err != nil {
			t.Fatal(err)
		}
	}
	original := keyedUpdate()
	r := original.Clone()
	both := schema.Parts{Key: true, Payload: true}
	if err := cache.EncodeRecord(t.Context(), &r, both); err != nil {
		t.Fatal(err)
	}
	for _, d := range []record.Data{r.Key, r.Before, r.After} {
		if _, raw := d.Raw(); !raw {
			t.Fatalf("not encoded: %v", r)
		}
	}
	if err := cache.DecodeRecord(t.Context(), &r, schema.Parts{Payload: true}); err != nil {
		t.Fatal(err)
	}
	if _, raw := r.Key.Raw(); !raw {
		t.Error("the key was decoded unasked")
	}
	if err := cache.DecodeRecord(t.Context(), &r, both); err != nil || !r.Equal(original) {
		t.Errorf("%v: got %v, want %v", err, r, original)
	}
}

func TestConversionFailsWhole(t *testing.T) {
	cache := &schema.Cache{Registry: &schema.Memory{}}
	r := keyedUpdate()
	before := r.Clone()
	if err := cache.EncodeRecord(t.Context(), &r, schema.Parts{Key: true}); !errors.Is(err, schema.ErrSubjectNotFound) {
		t.Error(err)
	}
	if _, err := cache.Create(t.Context(), "p", schema.TypeAvro, field(`["null","long"]`)); err != nil {
		t.Fatal(err)
	}
	r.After = record.Structured(object{"v": "text"})
	before.After = r.After
	if err := cache.EncodeRecord(t.Context(), &r, schema.Parts{Payload: true}); err == nil || !r.Equal(before) {
		t.Errorf("%v: the record became %v", err, r)
	}
	r.Metadata.Set(record.KeyPayloadSchemaVersion, "one")
	if err := cache.DecodeRecord(t.Context(), &r, schema.Parts{Payload: true}); err == nil {
		t.Error("no error for a version that is no number")
	}
}

func keyedUpdate() record.Record {
	return record.Record{
		Position: record.Position("1"), Operation: record.OperationUpdate,
		Metadata: record.NewMetadata(map[string]string{
			record.KeyKeySchemaSubject: "k", record.KeyKeySchemaVersion: "1",
			record.KeyPayloadSchemaSubject: "p", record.KeyPayloadSchemaVersion: "1",
		}),
		Key:    record.Structured(object{"v": "key"}),
		Before: record.Structured(object{"v": nil}),
		After:  record.Structured(object{"v": int64(1)}),
	}
}

func TestSubject(t *testing.T) {
	for want, in := range map[string][3]string{
		"payload":            {"", "", "payload"},
		"pipe:src:payload":   {"pipe:src", "", "payload"},
		"pipe:src:users.key": {"pipe:src", "users", "key"},
		"users.key":          {"", "users", "key"},
	} {
		if got := schema.Subject(in[0], in[1], in[2]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
