package mysql

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
)

// maxRecords and maxBytes, together with maxBatches, bound the records that the source buffers for Read.
const (
	maxBatches = 2
	maxRecords = 512
	maxBytes   = 256 << 10
)

// rows adds records for changes of rows.
func (st *stream) rows(ctx context.Context, h *binlog.Header, rows *binlog.Rows) error {
	r, err := st.relationOf(ctx, rows.Table)
	if err != nil || !r.wanted {
		return err
	}
	if !st.tx.open {
		return fmt.Errorf("cannot read the change of table %s.%s that ends at %d: it is outside a transaction",
			r.Schema,
			r.Name, h.End)
	}
	for rows.More() {
		if err := rows.Next(r.before, r.after, false); err != nil {
			return err
		}
		if err := st.row(r, rows.Kind); err != nil {
			return err
		}
		if len(st.records) >= maxRecords || st.bytes >= maxBytes {
			if !st.flush(ctx) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// current returns the kind of a change with respect to current rows: a row that ends is deleted. ok is false for a
// change of history.
func (r *relation) current(kind binlog.Kind) (now binlog.Kind, ok bool) {
	if r.end < 0 {
		return kind, true
	}
	before := kind != binlog.Insert && IsCurrent(r.before[r.end])
	after := kind != binlog.Delete && IsCurrent(r.after[r.end])
	switch {
	case before && after:
		return binlog.Update, true
	case before:
		return binlog.Delete, true
	case after:
		return binlog.Insert, true
	}
	return kind, false
}

// row emits the change of a row.
func (st *stream) row(r *relation, kind binlog.Kind) error {
	kind, ok := r.current(kind)
	if !ok {
		return nil
	}
	switch kind {
	case binlog.Insert:
		return st.add(r, record.OperationCreate, r.after, nil, r.after)
	case binlog.Delete:
		return st.add(r, record.OperationDelete, r.before, r.before, nil)
	default:
		return st.update(r)
	}
}

// update emits an updated row: as one record or, if its key changed, as a delete of the former key and a create of the
// new one.
func (st *stream) update(r *relation) error {
	for i, v := range r.after { // the log has changed columns only
		if v == binlog.Absent {
			r.after[i] = r.before[i]
		}
	}
	for _, k := range r.keys {
		if r.before[k] != binlog.Absent && !reflect.DeepEqual(r.before[k], r.after[k]) {
			if err := st.add(r, record.OperationDelete, r.before, r.before, nil); err != nil {
				return err
			}
			return st.add(r, record.OperationCreate, r.after, nil, r.after)
		}
	}
	return st.add(r, record.OperationUpdate, r.after, r.before, r.after)
}

// checkWhole returns an error if the log lacks columns that the record needs: the key columns and, for a new row, all
// columns. Without them a destination would write an incomplete row, or find none.
func (r *relation) checkWhole(op record.Operation, key []any) error {
	for i, v := range key {
		if v == binlog.Absent && (slices.Contains(r.keys,
			i) || op == record.OperationCreate && !r.Columns[i].Skip && i != r.end) {
			id := r.Schema + "." + r.Name
			return fmt.Errorf("cannot read a change of table %s: the binary log lacks column %s of the row, "+
				"because binlog_row_image was not FULL in the session that changed it. Set binlog_row_image = FULL "+
				"in this session. To skip this change and read the table again, add %s/1, or another word after "+
				"the slash, to snapshot.again", id, r.Columns[i].Name, id)
		}
	}
	return nil
}

// add adds a record unless it was emitted before.
func (st *stream) add(r *relation, op record.Operation, key, before, after []any) error {
	tx := &st.tx
	tx.index++
	if tx.index <= tx.skip || tx.hidden && st.seen.includes(st.settings.patterns, r.Schema, r.Name) {
		return nil
	}
	if err := r.checkWhole(op, key); err != nil {
		return err
	}
	rec := record.Record{Operation: op, Metadata: r.metadata(tx)}
	position := append(make(record.Position, 0, len(tx.prefix)+len(tx.suffix)+20), tx.prefix...)
	rec.Position = append(strconv.AppendInt(append(position, `,"index":`...), tx.index, 10), tx.suffix...)
	if len(r.keys) > 0 {
		values := make(map[string]any, len(r.keys))
		for _, k := range r.keys {
			values[r.Columns[k].Name] = key[k]
		}
		rec.Key = record.Structured(values)
	}
	if before != nil {
		rec.Before = record.Structured(st.values(r, before))
	}
	if after != nil {
		rec.After = record.Structured(st.values(r, after))
	}
	st.records, st.indexes = append(st.records, rec), append(st.indexes, tx.index)
	return nil
}

// values returns the logged columns of a row, and adds their size.
func (st *stream) values(r *relation, row []any) map[string]any {
	values := make(map[string]any, len(row))
	for i, v := range row {
		if v == binlog.Absent || r.Columns[i].Skip || i == r.end {
			continue
		}
		values[r.Columns[i].Name] = v
		st.bytes += 16 + sizeOf(v)
	}
	return values
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

// metadata returns the metadata of a record: its transaction and its table.
func (r *relation) metadata(tx *transaction) record.Metadata {
	if r.commonOf != tx.number {
		r.common = append(make(record.Metadata, 0, len(tx.metadata)+2), tx.metadata...)
		r.common.Set(record.KeyCollection, r.Name)
		r.common.Set(metaDatabase, r.Schema)
		r.commonOf = tx.number
	}
	return withSpare(r.common)
}

// withSpare returns a copy of m with spare capacity for the keys that a host adds.
func withSpare(m record.Metadata) record.Metadata {
	return append(make(record.Metadata, 0, len(m)+2), m...)
}

// flush emits the records. It keeps the last record of an unfinished transaction, whose position depends on whether
// more follow.
func (st *stream) flush(ctx context.Context) bool {
	n := len(st.records)
	held := st.tx.open && len(st.indexes) > 0
	if held {
		n--
	}
	if n <= 0 {
		return true
	}
	if !st.Send(ctx, st.records[:n:n]) {
		return false
	}
	st.at = st.now.clone()
	if !st.tx.open {
		st.Source.seen = st.seen
	}
	if k := len(st.indexes); held && k > 1 {
		st.at.in, st.at.index = st.tx.gtid, st.indexes[k-2]
	}
	var rest []record.Record
	var index []int64
	if held {
		rest, index = append(rest, st.records[n]), append(index, st.indexes[len(st.indexes)-1])
	}
	st.records, st.indexes, st.bytes = rest, index, 0
	return true
}
