package s3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// columns reports whether objects have a column for each field of the payload.
func (s *destinationSettings) columns() bool { return s.Format == "parquet" && s.Columns == "payload" }

// extra returns the columns in addition to those of the payload.
func (s *destinationSettings) extra() (c parquet.Columns, err error) {
	if s.Columns == "payload" && s.Format != "parquet" {
		return c, sdk.SettingError{Setting: "parquet.columns", Message: "needs format parquet"}
	}
	for _, name := range s.Extra {
		part := map[string]*bool{"operation": &c.Operation, "key": &c.Key, "position": &c.Position,
			"metadata": &c.Metadata}[name]
		if part == nil {
			return c, sdk.SettingError{Setting: "parquet.recordColumns",
				Message: fmt.Sprintf("cannot have %q, only operation, key, position and metadata", name)}
		}
		*part = true
	}
	return c, nil
}

// mostTables is the number of tables whose columns are remembered.
const mostTables = 1000

// tables are the tables of a destination: those of the records with the same prefix, collection and schemas.
type tables struct {
	extra   parquet.Columns
	schemas *schema.Cache // nil: records have no schemas
	known   map[tableKey]*parquet.Table
	used    []*parquet.Table // since the last commit
}

type tableKey struct{ prefix, collection, payload, payloadVersion, key, keyVersion string }

func (t *tables) open(ctx context.Context) {
	t.known, t.used = map[tableKey]*parquet.Table{}, nil
	if registry := sdk.EnvFrom(ctx).Schemas; registry != nil {
		t.schemas = &schema.Cache{Registry: registry}
	}
}

// of returns the table of a record. The error is not the fault of the record.
func (t *tables) of(ctx context.Context, prefix string, r *record.Record) (*parquet.Table, error) {
	m := r.Metadata
	k := tableKey{prefix, m.Get(record.KeyCollection), m.Get(record.KeyPayloadSchemaSubject),
		m.Get(record.KeyPayloadSchemaVersion), "", ""}
	if t.extra.Key {
		k.key, k.keyVersion = m.Get(record.KeyKeySchemaSubject), m.Get(record.KeyKeySchemaVersion)
	}
	table := t.known[k]
	if table == nil {
		payload, err := t.codec(ctx, k.payload, k.payloadVersion)
		if err != nil {
			return nil, err
		}
		key, err := t.codec(ctx, k.key, k.keyVersion)
		if err != nil {
			return nil, err
		}
		if len(t.known) >= mostTables {
			clear(t.known)
		}
		table = parquet.NewTable(t.extra, payload, key)
		t.known[k] = table
	}
	if !slices.Contains(t.used, table) {
		t.used = append(t.used, table)
	}
	return table, nil
}

// codec returns a schema, or nil if the registry does not have it.
func (t *tables) codec(ctx context.Context, subject, version string) (*schema.Codec, error) {
	n, err := strconv.Atoi(version)
	if t.schemas == nil || subject == "" || err != nil {
		return nil, nil
	}
	codec, err := t.schemas.Codec(ctx, subject, n)
	switch {
	case errors.Is(err, schema.ErrSubjectNotFound), errors.Is(err, schema.ErrVersionNotFound),
		errors.Is(err, schema.ErrInvalidSchema):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot get version %d of schema %q: %w", n, subject, err)
	}
	return codec, nil
}

// commit keeps the columns of the objects that are written.
func (t *tables) commit() {
	for _, table := range t.used {
		table.Commit()
	}
	t.used = t.used[:0]
}

// rollback forgets columns of objects that are not written, so that the same records make the same objects again.
func (t *tables) rollback() {
	for _, table := range t.used {
		table.Rollback()
	}
	t.used = t.used[:0]
}
