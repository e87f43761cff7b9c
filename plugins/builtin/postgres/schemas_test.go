package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
