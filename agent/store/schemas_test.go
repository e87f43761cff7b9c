package store_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
)

func TestSchemas(t *testing.T) {
	var registry schema.Registry = newStore(t).Schemas()
	ctx := t.Context()
	steps := []struct {
		subject, text string
		version, id   int
	}{
		{"a:payload", `"string"`, 1, 1},
		{"a:payload", `"long"`, 2, 2},
		{"a:payload", `"string"`, 1, 1}, // identical text: same version
		{"b:payload", `"long"`, 1, 2},   // other subject: same id
		{"b:payload", `"int"`, 2, 3},
		{"b:payload", `"long" `, 3, 4}, // compared by the byte
	}
	for _, s := range steps {
		want := schema.Schema{Subject: s.subject, Version: s.version, ID: s.id, Type: schema.TypeAvro, Text: s.text}
		got, err := registry.Create(ctx, s.subject, schema.TypeAvro, s.text)
		must(t, err)
		wantEqual(t, got, want)
		got, err = registry.Get(ctx, s.subject, s.version)
		must(t, err)
		wantEqual(t, got, want)
	}
	byID := registry.(schema.IDRegistry)
	got, err := byID.ByID(ctx, 2)
	must(t, err)
	wantEqual(t, got, schema.Schema{ID: 2, Type: schema.TypeAvro, Text: `"long"`})
	_, err = byID.ByID(ctx, 99)
	wantError(t, err, schema.ErrSubjectNotFound)
	_, err = registry.Get(ctx, "c", 1)
	wantError(t, err, schema.ErrSubjectNotFound)
	_, err = registry.Get(ctx, "a:payload", 3)
	wantError(t, err, schema.ErrVersionNotFound)
	_, err = registry.Create(ctx, "a", 0, `"string"`)
	wantError(t, err, schema.ErrInvalidSchema)
	_, err = registry.Create(ctx, "a", schema.TypeAvro, "")
	wantError(t, err, schema.ErrInvalidSchema)
}
