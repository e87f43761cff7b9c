package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// handle handles a message of pgoutput: the beginning or end of a transaction, the description of a table, or a change.
func (st *stream) handle(ctx context.Context, m pg.Message) error {
	switch m := m.(type) {
	case *pg.Begin:
		st.beginTransaction(m)
	case *pg.Commit:
		st.endTransaction(m)
	case *pg.Relation:
		r, err := st.describe(ctx, m)
		if err != nil {
			return err
		}
		st.relations[m.OID] = r
	case *pg.Insert:
		r, err := st.relation(m.Relation, m.New)
		if err != nil {
			return err
		}
		return st.create(ctx, r, m.New)
	case *pg.Update:
		r, err := st.relation(m.Relation, m.New, m.Old)
		if err != nil {
			return err
		}
		return st.update(ctx, r, m)
	case *pg.Delete:
		r, err := st.relation(m.Relation, m.Old)
		if err != nil {
			return err
		}
		return st.add(ctx, r, record.OperationDelete, m.Old, m.Old, nil)
	case *pg.Truncate:
		st.truncated(m)
	}
	return nil
}

// beginTransaction begins a transaction, and decides which changes to emit.
func (st *stream) beginTransaction(m *pg.Begin) {
	st.tx = transaction{Begin: *m, open: true,
		skip:   m.Commit < st.at.commit || m.Commit < st.confirmer.conduit,
		hidden: st.seen.contains(m.XID, m.Commit),
		metadata: record.NewMetadata(map[string]string{
			record.KeyCreatedAt: nanoseconds(m.Time), metaLSN: m.Commit.String(),
			metaTime: m.Time.Format(time.RFC3339Nano), metaXID: fmt.Sprint(m.XID),
		})}
	if st.seen != nil && m.Commit < st.seen.until {
		st.tx.seenJSON = st.seen.json
	}
}

// endTransaction ends the transaction, which the server sends only after its commit.
func (st *stream) endTransaction(m *pg.Commit) {
	st.tx.open = false
	st.confirmer.committed(m.Commit, m.End, max(st.tx.emitted, st.emittedEarlier(m.Commit)))
	if len(st.records) == 0 && st.tx.emitted == 0 && m.Commit > st.at.commit {
		st.at = place{m.Commit, st.tx.index} // otherwise flush sets it to the last record
	}
	st.monitor.committed(m.End, st.tx.Time)
}

// emittedEarlier returns the index of the last record of a transaction that an earlier session emitted.
func (st *stream) emittedEarlier(commit pg.LSN) int64 {
	if commit == st.at.commit {
		return st.at.index
	}
	return 0
}

// relation returns the table of a change with these rows. The server describes a table before its first change.
func (st *stream) relation(oid uint32, rows ...pg.Tuple) (*relation, error) {
	r := st.relations[oid]
	if r == nil {
		return nil, fmt.Errorf("cannot read a change of the table with OID %d: the server did not describe the table",
			oid)
	}
	for _, row := range rows {
		if len(row) > len(r.columns) {
			return nil, fmt.Errorf("cannot read a change of table %s: the change has %d columns, and the table has %d",
				r.id(), len(row), len(r.columns))
		}
	}
	return r, nil
}

// emits reports whether the source emits the change of a table with this index in the transaction. It does not if an
// earlier session emitted the change, the source does not read the table, or a snapshot contains the change.
func (st *stream) emits(r *relation, index int64) bool {
	earlier := st.tx.skip || st.tx.Commit == st.at.commit && index <= st.at.index
	return !earlier && r.wanted && !(st.tx.hidden && st.seen.covers(r.id()))
}

// emitsNext is emits for the next change.
func (st *stream) emitsNext(r *relation) bool { return st.emits(r, st.tx.index+1) }

// update emits an updated row: as one record or, if its key changed, as a delete of the old key and a create of the new
// one.
func (st *stream) update(ctx context.Context, r *relation, m *pg.Update) error {
	for i := range m.New { // the old row may have unchanged values: key columns, or with a full replica identity any
		if m.New[i].Kind == pg.Unchanged && i < len(m.Old) && m.Old[i].Kind == pg.Text {
			m.New[i] = m.Old[i]
		}
	}
	if m.Old != nil && st.emitsNext(r) {
		if err := r.checkKey(m.Old); err != nil { // it is unknown whether the key changed
			return err
		}
	}
	if m.Old != nil && r.keyChanged(m.Old, m.New) {
		if err := st.add(ctx, r, record.OperationDelete, m.Old, m.Old, nil); err != nil {
			return err
		}
		return st.create(ctx, r, m.New)
	}
	before := m.Old
	if m.OldKey {
		before = nil
	}
	return st.add(ctx, r, record.OperationUpdate, m.New, before, m.New)
}

// create emits a new row, or a row with a new key. A destination would write an incomplete row from a record without
// some columns, so create reads these from the table. They may already be newer: the change that made them so follows.
// A row that no longer exists has no record, because its delete follows.
func (st *stream) create(ctx context.Context, r *relation, row pg.Tuple) error {
	if r.absent(row) != "" && st.emitsNext(r) {
		if err := r.checkKey(row); err != nil {
			return err
		}
		exists, err := st.now.complete(ctx, r, row, st.tx.XID)
		if err != nil {
			return err
		}
		if !exists {
			st.tx.index++
			st.log.Warn("a row with a new key no longer existed when its large values were read, so its create "+
				"record is left out; to make the server send large values, set REPLICA IDENTITY FULL", "table", r.id())
			return nil
		}
	}
	return st.add(ctx, r, record.OperationCreate, row, nil, row)
}

// add counts a change, and adds its record if the source emits it. key is the row with the key of the record.
func (st *stream) add(ctx context.Context, r *relation, op record.Operation, key, before, after pg.Tuple) error {
	st.tx.index++
	if !st.emits(r, st.tx.index) {
		return nil
	}
	if err := r.checkKey(key); err != nil {
		return err
	}
	rec := record.Record{Operation: op, Metadata: st.metadata(ctx, r, r.absent(before, after))}
	rec.Position = appendStream(make(record.Position, 0, 96+len(st.tx.seenJSON)), st.tx.Commit, st.tx.index, st.system,
		st.tx.seenJSON)
	if len(r.keys) > 0 {
		values := make(map[string]any, len(r.keys))
		for _, k := range r.keys {
			values[r.columns[k].Name] = pg.Decode(r.columns[k].OID, key[k].Text)
		}
		rec.Key = record.Structured(values)
	}
	if before != nil {
		rec.Before = record.Structured(r.values(before, op == record.OperationDelete && !r.full))
	}
	if after != nil {
		rec.After = record.Structured(r.values(after, false))
	}
	st.tx.emitted = st.tx.index
	st.records = append(st.records, rec)
	for _, t := range []pg.Tuple{before, after} {
		for i := range t {
			st.bytes += len(t[i].Text) + 16
		}
	}
	return nil
}

// truncated warns of truncated tables: records have no operation for it.
func (st *stream) truncated(m *pg.Truncate) {
	for _, oid := range m.Relations {
		if r := st.relations[oid]; r != nil && r.wanted && !st.tx.skip {
			st.log.Warn("a table was truncated, without delete records for its rows: remove them at the destination",
				"table", r.id(), "lsn", st.tx.Commit.String(), "at", st.tx.Time.Format(time.RFC3339))
		}
	}
}
