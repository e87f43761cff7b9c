package mysql

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
)

// metadata of records in addition to that of the OpenCDC format.
const (
	metaDatabase = "mysql.database"
	metaGTID     = "mysql.gtid"
	metaFile     = "mysql.binlog.file"
	metaPos      = "mysql.binlog.pos"  // of the transaction
	metaTime     = "mysql.commit_time" // RFC 3339, in UTC
)

// relation is a table as the log describes it, with what the catalogue adds.
type relation struct {
	*binlog.Table
	wanted     bool
	generation int   // of the catalogue
	keys       []int // columns of the primary key
	end        int   // column that says until when a row is current; -1: all rows are
	before     []any // of a row
	after      []any

	common   record.Metadata // of the records of the transaction commonOf
	commonOf int64
}

// relationOf completes a table of the log, once for each description and after each change of the catalogue.
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
			t.Columns[r.end].Skip = false // to know which rows are current
		}
		r.before, r.after = make([]any, len(t.Columns)), make([]any, len(t.Columns))
	}
	t.Tag = r
	return r, nil
}

// isSequence reports whether the log describes a sequence of MariaDB, which may not exist any more.
func isSequence(t *binlog.Table) bool {
	return t.Named && len(t.Columns) == 8 && t.Columns[0].Name == "next_not_cached_value" && t.Columns[7].Name == "cycle_count"
}

// describe returns what the catalogue says of a table. What it said stays until a statement changes tables.
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
