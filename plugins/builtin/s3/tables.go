package s3

import (
	"context"
	"errors"
	"fmt"
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

// maxTables is the number of tables whose columns are remembered.
const maxTables = 1000

// tables are the tables of a destination: those of the records with the same prefix or key, and the same
// collection.
type tables struct {
	extra   parquet.Columns
	schemas *schema.Cache // nil: records have no schemas
	known   map[tableKey]*parquet.Table
	used    map[*parquet.Table]bool // since the last commit
}

type tableKey struct{ name, collection string }

func (t *tables) open(ctx context.Context) {
	t.known, t.used = map[tableKey]*parquet.Table{}, map[*parquet.Table]bool{}
	if registry := sdk.EnvFrom(ctx).Schemas; registry != nil {
		t.schemas = &schema.Cache{Registry: registry}
	}
}

// lookup returns the table of a record.
func (t *tables) lookup(name string, r *record.Record) *parquet.Table {
	k := tableKey{name, r.Metadata.Get(record.KeyCollection)}
	table := t.known[k]
	if table == nil {
		if len(t.known) >= maxTables {
			clear(t.known)
		}
		table = parquet.NewTable(t.extra)
		t.known[k] = table
	}
	t.used[table] = true
	return table
}

// schemasOf returns the schemas of a record. The error is not the fault of the record.
func (t *tables) schemasOf(ctx context.Context, r *record.Record) (s parquet.Schemas, err error) {
	s.Payload, err = t.codec(ctx, r, record.KeyPayloadSchemaSubject, record.KeyPayloadSchemaVersion)
	if err == nil && t.extra.Key {
		s.Key, err = t.codec(ctx, r, record.KeyKeySchemaSubject, record.KeyKeySchemaVersion)
	}
	return s, err
}

// codec returns a schema of a record, or nil if the registry does not have it.
func (t *tables) codec(
	ctx context.Context, r *record.Record, subjectKey, versionKey string,
) (*schema.Codec, error) {
	subject := r.Metadata.Get(subjectKey)
	version, err := strconv.Atoi(r.Metadata.Get(versionKey))
	if t.schemas == nil || subject == "" || err != nil {
		return nil, nil
	}
	codec, err := t.schemas.Codec(ctx, subject, version)
	switch {
	case errors.Is(err, schema.ErrSubjectNotFound), errors.Is(err, schema.ErrVersionNotFound),
		errors.Is(err, schema.ErrInvalidSchema):
		return nil, nil
	case err != nil:
		return nil, sdk.Unavailable(fmt.Errorf("cannot get version %d of schema %q: %w", version, subject, err))
	}
	return codec, nil
}

// commit keeps the columns of the objects that are written.
func (t *tables) commit() {
	for table := range t.used {
		table.Commit()
	}
	clear(t.used)
}

// rollback forgets columns of objects that are not written, so that the same records make the same objects again.
func (t *tables) rollback() {
	for table := range t.used {
		table.Rollback()
	}
	clear(t.used)
}
