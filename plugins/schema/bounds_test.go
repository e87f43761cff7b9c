package schema_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
)

func textOf(n int) string {
	return fmt.Sprintf(`{"type":"record","name":"r%d","fields":[]}`, n)
}

// wantError checks that err contains want; an empty want means no error.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestBoundsOfCreating(t *testing.T) {
	r, ctx := &schema.Memory{}, t.Context()
	b := &schema.Bounds{Schemas: 3, Bytes: 1000}
	create := func(id, subject, text string) error {
		_, err := b.Create(ctx, r, id, subject, schema.TypeAvro, text)
		return err
	}
	wantError(t, "what is no schema", create("p:a", "s", "no"), "invalid schema")
	for i := range 3 {
		wantError(t, "within the bound", create("p:a", "s", textOf(i)), "")
	}
	wantError(t, "one again", create("p:a", "s", textOf(1)), "")
	wantError(t, "one too many", create("p:a", "s", textOf(3)), "connectors.max-schemas")
	wantError(t, "in another subject", create("p:a", "t", textOf(1)), "connectors.max-schemas")
	wantError(t, "of another connector", create("p:b", "s", textOf(3)), "")
	wantError(t, "a great one", create("p:b", "s", strings.Repeat(" ", 1000)+textOf(4)), "connectors.max-schema-bytes")
	wantError(t, "a small one after it", create("p:b", "s", textOf(4)), "")
	wantError(t, "a great subject", create("p:c", strings.Repeat("s", 2000), textOf(4)), "2000 bytes")
	if _, err := r.Get(ctx, "s", 6); !errors.Is(err, schema.ErrVersionNotFound) {
		t.Errorf("refused schemas were stored: %v", err)
	}
}

func TestConnectorsHaveTheirOwnSchemas(t *testing.T) {
	r, ctx := &schema.Memory{}, t.Context()
	pipelines := map[string]string{"p:a": "p", "p:b": "p", "q:a": "q", "odd:id:x": "odd:id"}
	b := &schema.Bounds{PipelineOf: func(_ context.Context, id string) (string, bool) {
		p, ok := pipelines[id]
		return p, ok
	}}
	for _, subject := range []string{"p:a:payload", "q:a:payload", "odd:id:x:key", "orders", "eu:orders:key"} {
		if _, err := r.Create(ctx, subject, schema.TypeAvro, textOf(0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ caller, subject, create, get string }{
		{"p:a", "p:a:payload", "", ""},
		{"new:a", "new:a:payload", "", ""}, // it was never started
		{"p:b", "p:a:payload", "belongs to connector p:a", ""},
		{"p:b", "q:a:payload", "belongs to connector q:a", "connectors.schema-access"},
		{"new:a", "p:a:payload", "belongs to connector p:a", "connectors.schema-access"},
		{"p:b", "odd:id:x:key", "belongs to connector odd:id:x", "of another pipeline"},
		{"p:b", "orders", "", ""},
		{"p:b", "eu:orders:key", "", ""},
		{"odd:id", "odd:id:x:key", "belongs to connector odd:id:x", "of another pipeline"}, // one id begins the other
	} {
		_, err := b.Create(ctx, r, c.caller, c.subject, schema.TypeAvro, textOf(1))
		wantError(t, c.caller+" creates "+c.subject, err, c.create)
		_, err = b.Get(ctx, r, c.caller, c.subject, 1)
		wantError(t, c.caller+" reads "+c.subject, err, c.get)
	}
	b.ReadAny = true
	_, err := b.Get(ctx, r, "p:b", "q:a:payload", 1)
	wantError(t, "with schema-access any", err, "")
	_, err = b.Create(ctx, r, "p:b", "q:a:payload", schema.TypeAvro, textOf(2))
	wantError(t, "creating with schema-access any", err, "belongs to")
}
