package mysql

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Metadata keys of records, in addition to those of the OpenCDC format.
const (
	metaDatabase = "mysql.database"
	metaGTID     = "mysql.gtid"
	metaFile     = "mysql.binlog.file"
	metaPos      = "mysql.binlog.pos"  // of the transaction
	metaTime     = "mysql.commit_time" // RFC 3339, in UTC
)

// relation is a table as described by the log, with additions from the catalogue.
type relation struct {
	*binlog.Table
	wanted     bool
	generation int   // of the catalogue
	keys       []int // columns of the primary key
	end        int   // row end column; -1: all rows are current
	before     []any // of a row
	after      []any

	common   record.Metadata // shared by the records of the transaction commonOf
	commonOf int64
}

// relationOf completes a table of the log, once per description and again after each change of the catalogue.
func (st *stream) relationOf(ctx context.Context, t *binlog.Table) (*relation, error) {
	if r, ok := t.Tag.(*relation); ok && (r.generation == st.generation || !r.wanted) {
		return r, nil
	}
	r := &relation{Table: t, generation: st.generation, wanted: st.settings.wants(t.Schema, t.Name)}
	if r.wanted && isSequence(t) {
		r.wanted = false
	}
	if r.wanted {
		info, err := st.describe(ctx, t.Schema, t.Name)
		if err != nil {
			return nil, err
		}
		r.wanted = info.IsRead()
		if r.wanted {
			r.keys, err = info.Complete(ctx, t, st.charsets, st.server.maria)
		}
		if err != nil {
			return nil, err
		}
		if r.end = info.End(t); r.end >= 0 {
			t.Columns[r.end].Skip = false // to recognize current rows
		}
		r.before, r.after = make([]any, len(t.Columns)), make([]any, len(t.Columns))
	}
	t.Tag = r
	return r, nil
}

// isSequence reports whether t is a sequence of MariaDB, which may no longer exist.
func isSequence(t *binlog.Table) bool {
	return t.Named && len(t.Columns) == 8 && t.Columns[0].Name == "next_not_cached_value" &&
		t.Columns[7].Name == "cycle_count"
}

// describe returns the catalogue's description of a table. It caches the description until a statement changes tables.
func (st *stream) describe(ctx context.Context, schema, name string) (*Table, error) {
	id := schema + "." + name
	if info := st.tables[id]; info != nil {
		return info, nil
	}
	info := &Table{Schema: schema, Name: name}
	if err := info.Describe(ctx, st.db); err != nil {
		return nil, err
	}
	st.tables[id] = info
	return info, nil
}
