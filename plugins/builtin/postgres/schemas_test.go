package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// brokenRegistry registers nothing until works is set.
type brokenRegistry struct{ works bool }

func (b *brokenRegistry) Create(_ context.Context, subject string, _ schema.Type, _ string) (schema.Schema, error) {
	if b.works {
		return schema.Schema{Subject: subject, Version: 1}, nil
	}
	return schema.Schema{}, errors.New("no disk")
}

func (b *brokenRegistry) Get(context.Context, string, int) (schema.Schema, error) {
	return schema.Schema{}, errors.New("no disk")
}

// TestSchemaThatCannotBeRegisteredIsLoggedOnce checks that a failed registration is logged once, not for every record.
func TestSchemaThatCannotBeRegisteredIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	registry := &brokenRegistry{}
	st := &stream{Source: &Source{log: slog.New(slog.NewTextHandler(&log, nil)), schemas: newSchemas(registry)}}
	r := &relation{schema: "public", name: "orders", columns: []pg.Column{{Name: "id"}, {Name: "text"}},
		schemas: map[string]record.Metadata{}}
	partial := pg.Tuple{{}, {Kind: pg.Unchanged}}
	for range 100 {
		st.metadata(t.Context(), r, r.absent(partial))
	}
	if n := strings.Count(log.String(), "cannot register the schema of a table"); n != 1 {
		t.Errorf("%d lines for 100 records:\n%s", n, &log)
	}
	registry.works = true
	if st.metadata(t.Context(), r, r.absent(partial)).Get(record.KeyPayloadSchemaSubject) == "" {
		t.Error("a record has no schema although it can be registered")
	}
}

// TestAvroTypes keeps all values of a row with its schema, which has numbers with their precision if it is limited,
// dates, and times with and without a time zone.
func TestAvroTypes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	columns := []pg.Column{{Name: "day", OID: pg.OIDDate}, {Name: "local", OID: pg.OIDTimestamp},
		{Name: "at", OID: pg.OIDTimestamptz}, {Name: "total", OID: pg.OIDNumeric, TypeName: "numeric(10,2)"},
		{Name: "any", OID: pg.OIDNumeric, TypeName: "numeric"},
		{Name: "small", OID: pg.OIDNumeric, TypeName: "numeric(2,4)"},
		{Name: "whole", OID: pg.OIDNumeric, TypeName: "numeric(3,-2)"}}
	text := avroOf("r", columns)
	for _, want := range []string{`[{"name":"day","type":["null",{"logicalType":"date","type":"int"},"string"],`,
		`{"name":"local","type":["null",{"logicalType":"local-timestamp-micros","type":"long"},"string"],`,
		`{"name":"at","type":["null",{"logicalType":"timestamp-micros","type":"long"},"string"],`,
		`{"name":"total","type":["null",{"logicalType":"numeric","precision":10,"scale":2,"type":"string"}],`,
		`{"name":"any","type":["null",{"logicalType":"numeric","type":"string"}],`,
		`{"name":"small","type":["null",{"logicalType":"numeric","precision":2,"scale":4,"type":"string"}],`,
		`{"name":"whole","type":["null",{"logicalType":"numeric","type":"string"}],`} {
		if !strings.Contains(text, want) {
			t.Errorf("the schema is %s, want %s", text, want)
		}
	}
	codec, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []map[string]any{
		{"day": at.Truncate(24 * time.Hour), "local": at, "at": at, "total": "9.90", "any": "1e5",
			"small": "0.0012", "whole": "1200"},
		{"day": "infinity", "local": "-infinity", "at": "infinity", "total": "NaN", "any": nil,
			"small": nil, "whole": nil},
	} {
		b, err := codec.Append(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := codec.Decode(b); err != nil || !reflect.DeepEqual(got, row) {
			t.Errorf("got %v, %v, want %v", got, err, row)
		}
	}
}
