package postgres

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// stream is a session of logical replication.
type stream struct {
	*Source
	conn *pgconn.PgConn

	writing sync.Mutex // for statuses

	relations map[uint32]*relation
	open      bool // in a transaction
	begin     pg.Begin
	index     int64 // of the last change of the transaction
	skip      bool  // the transaction was emitted before
	hidden    bool  // rows of a snapshot contain the transaction
	delivered int64 // index of the last emitted change of the transaction
	metadata  record.Metadata
	seenJSON  []byte // for positions until the stream has passed the snapshot

	records []record.Record
	bytes   int

	now current
}

// current looks up the current state of tables; see currentRows.
type current interface {
	complete(ctx context.Context, r *relation, row pg.Tuple, xid uint32) (exists bool, err error)
	ancestors(ctx context.Context, table uint32) ([]uint32, error)
}

// stream reads and emits the changes after s.at.
func (s *Source) stream(ctx context.Context, connected func()) error {
	params := map[string]string{"replication": "database", "application_name": s.application()}
	for k, v := range pg.Styles {
		params[k] = v
	}
	conn, err := pg.Connect(ctx, s.settings.URL, params) // receive detects silence
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	s.pids = append(s.pids[max(0, len(s.pids)-maxSessions+1):], conn.PID())
	now := &currentRows{settings: &s.settings}
	defer now.close()
	st := &stream{Source: s, conn: conn, relations: map[uint32]*relation{}, now: now}
	if err := st.start(ctx); err != nil {
		return err
	}
	connected()
	ctx, cancel := context.WithCancel(ctx)
	var statuses sync.WaitGroup
	statuses.Go(func() { st.sendStatuses(ctx) })
	defer statuses.Wait()
	defer cancel()
	stop := closing(ctx, conn)
	defer stop()
	return st.receive(ctx)
}

// application returns the application name of the session on the server.
func (s *Source) application() string {
	name := "conduit " + s.id
	return name[:min(len(name), 63)]
}

// start begins replication at the last confirmed place, or at the source's own place if that is later.
func (st *stream) start(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, st.settings.Timeout)
	defer cancel()
	from := max(st.at.commit, st.confirmer.confirmed()) // 0/0: at the place of the slot
	sql := fmt.Sprintf(`START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s)`,
		st.settings.Slot, from, pg.Literal(pg.Quote(st.settings.Publication)))
	st.conn.Frontend().SendQuery(&pgproto3.Query{String: sql})
	if err := st.conn.Frontend().Flush(); err != nil {
		return fmt.Errorf("cannot begin replication: %w", err)
	}
	for {
		m, err := st.conn.ReceiveMessage(bounded)
		if err != nil {
			return fmt.Errorf("cannot begin replication: %w", err)
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return st.explain(ctx, pgconn.ErrorResponseToPgError(m))
		}
	}
}

// explain adds a remedy to an error of replication.
func (st *stream) explain(ctx context.Context, err *pgconn.PgError) error {
	wrapped := fmt.Errorf("cannot replicate: %w", err)
	switch {
	case err.Code == pg.CodeObjectInUse:
		return st.inUse(ctx, wrapped)
	case err.Code == pg.CodeUndefinedObject && strings.Contains(err.Message, "replication slot"):
		return st.settings.lost("does not exist any more")
	case err.Code == pg.CodeNotPrerequisite &&
		(strings.Contains(err.Message, "slot") || strings.Contains(err.Detail, "slot")):
		return st.settings.lost("was invalidated by the server (" + strings.TrimSpace(err.Message+" "+err.Detail) + ")")
	case strings.Contains(err.Message, "publication") && strings.Contains(err.Message, "does not exist"):
		return fmt.Errorf("%w: publication %s was removed, or made after slot %s: changes in between cannot be read, "+
			"a new snapshot is needed: "+
			"delete the pipeline and declare it again", wrapped, st.settings.Publication, st.settings.Slot)
	}
	return wrapped
}

// slotReleaseTimeout is the time in which a former session of this source must release the slot.
const slotReleaseTimeout = 5 * time.Second

// inUse handles a slot that is in use: it terminates an earlier session of this source, and briefly waits for any other
// session.
func (st *stream) inUse(ctx context.Context, cause error) error {
	conn, err := pg.ConnectGuarded(ctx, st.settings.URL, st.settings.Timeout, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	deadline := time.Now().Add(slotReleaseTimeout)
	for wait := (common.Backoff{}); ; {
		r, err := pg.Row(ctx, conn, `SELECT coalesce(s.active_pid, 0), coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'a local socket')
			FROM pg_catalog.pg_replication_slots s LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = $1`, st.settings.Slot)
		if err != nil {
			return fmt.Errorf("cannot look up slot %s: %w", st.settings.Slot, err)
		}
		if r == nil || r[0] == "0" {
			return pg.ErrAgain
		}
		if slices.Contains(st.pids, idOf(r[0])) {
			if _, err := pg.Rows(ctx, conn, "SELECT pg_catalog.pg_terminate_backend($1::int)", r[0]); err != nil {
				return fmt.Errorf("cannot end the earlier session: %w", err)
			}
		} else if time.Now().After(deadline) {
			return &inUseError{fmt.Sprintf("slot %s is in use by %q from %s (process %s of the server): a slot "+
				"serves one source. "+
				"Give each pipeline a logrepl.slotName and a logrepl.publicationName of its own", st.settings.Slot,
				r[1], r[2], r[0]), cause}
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// maxSessions is the number of sessions that a source remembers.
const maxSessions = 8

// idOf parses the id of a session or an object.
func idOf(text string) uint32 {
	pid, _ := strconv.ParseUint(text, 10, 32)
	return uint32(pid)
}

// inUseError does not count as a network error, so it stops the source.
type inUseError struct {
	message string
	cause   error
}

// Error implements error.
func (e *inUseError) Error() string { return e.message }

// Unwrap returns the error of the server.
func (e *inUseError) Unwrap() error { return e.cause }

// receive handles the messages of the server until the session ends.
func (st *stream) receive(ctx context.Context) error {
	front, silence := st.conn.Frontend(), 3*st.settings.Heartbeat
	for {
		if front.ReadBufferLen() == 0 {
			if !st.flush(ctx) {
				return ctx.Err()
			}
			select {
			case <-st.rescan:
				return errRescan // the stream resumes after st.at
			default:
			}
			if ctx.Err() == nil { // otherwise the deadline has passed, and stays
				_ = st.conn.Conn().SetReadDeadline(time.Now().Add(silence))
			}
		}
		m, err := front.Receive()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot read changes: %w", err)
		}
		switch m := m.(type) {
		case *pgproto3.CopyData:
			if err := st.frame(ctx, m.Data); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			return st.explain(ctx, pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyDone:
			return fmt.Errorf("the server ended replication: %w", io.ErrUnexpectedEOF)
		}
	}
}

func (st *stream) frame(ctx context.Context, data []byte) error {
	f, err := pg.ParseFrame(data)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *pg.Keepalive:
		if !st.open {
			st.confirmer.idle(f.End)
			st.monitor.caughtUp(f.End)
		}
		if f.Reply {
			return st.status(false)
		}
	case *pg.XLogData:
		m, err := pg.ParseMessage(f.Data)
		if err != nil {
			return err
		}
		if err := st.message(ctx, m); err != nil {
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

func (st *stream) message(ctx context.Context, m pg.Message) error {
	switch m := m.(type) {
	case *pg.Begin:
		st.beginTransaction(m)
	case *pg.Commit:
		st.open = false
		st.confirmer.committed(m.Commit, m.End, max(st.delivered, st.before(m.Commit)))
		if len(st.records) == 0 && st.delivered == 0 && m.Commit > st.at.commit { // no record moves at
			st.at = place{m.Commit, st.index}
		}
		st.monitor.committed(m.End, st.begin.Time)
	case *pg.Relation:
		rel, err := st.relation(ctx, m)
		if err != nil {
			return err
		}
		st.relations[m.OID] = rel
	case *pg.Insert:
		return st.change(m.Relation, len(m.New), func(r *relation) error { return st.create(ctx, r, m.New) })
	case *pg.Update:
		return st.change(m.Relation, max(len(m.New), len(m.Old)), func(r *relation) error {
			return st.update(ctx, r, m)
		})
	case *pg.Delete:
		return st.change(m.Relation, len(m.Old), func(r *relation) error {
			return st.add(r, record.OperationDelete, m.Old, m.Old, nil)
		})
	case *pg.Truncate:
		st.truncated(m)
	}
	return nil
}

// before returns the index of the last record of a transaction that a former session emitted.
func (st *stream) before(commit pg.LSN) int64 {
	if commit == st.at.commit {
		return st.at.index
	}
	return 0
}

func (st *stream) beginTransaction(m *pg.Begin) {
	st.open, st.begin, st.index, st.delivered = true, *m, 0, 0
	st.skip = m.Commit < st.at.commit || m.Commit < st.confirmer.conduit
	st.hidden = st.seen.contains(m.XID, m.Commit)
	st.seenJSON = nil
	if st.seen != nil && m.Commit < st.seen.until {
		st.seenJSON = st.seen.json
	}
	st.metadata = record.NewMetadata(map[string]string{
		record.KeyCreatedAt: nanoseconds(m.Time), metaLSN: m.Commit.String(),
		metaTime: m.Time.Format(time.RFC3339Nano), metaXID: fmt.Sprint(m.XID),
	})
}

// change calls do for a change of a table.
func (st *stream) change(oid uint32, columns int, do func(*relation) error) error {
	r := st.relations[oid]
	if r == nil {
		return fmt.Errorf("cannot read a change of a table: the server did not describe %d", oid)
	}
	if columns > len(r.columns) {
		return fmt.Errorf("cannot read a change of table %s: it has %d columns instead of %d", r.id(), columns,
			len(r.columns))
	}
	return do(r)
}

// next counts a change, and reports whether the source emits it.
func (st *stream) next(r *relation) bool {
	st.index++
	return st.wants(r, st.index)
}

// wants reports whether the source emits the change with this index.
func (st *stream) wants(r *relation, index int64) bool {
	behind := st.skip || st.begin.Commit == st.at.commit && index <= st.at.index
	return !behind && r.wanted && !(st.hidden && st.seen.of(r.id()))
}

// update emits an updated row: as one record or, if its key changed, as a delete of the old key and a create of the new
// one.
func (st *stream) update(ctx context.Context, r *relation, m *pg.Update) error {
	for i := range m.New { // the old row may have unchanged values: key columns, or with a full replica identity any
		if m.New[i].Kind == pg.Unchanged && i < len(m.Old) && m.Old[i].Kind == pg.Text {
			m.New[i] = m.Old[i]
		}
	}
	if m.Old != nil && st.wants(r, st.index+1) {
		if err := r.checkKey(m.Old); err != nil { // it is unknown whether the key changed
			return err
		}
	}
	if m.Old != nil && r.keyChanged(m.Old, m.New) {
		if err := st.add(r, record.OperationDelete, m.Old, m.Old, nil); err != nil {
			return err
		}
		return st.create(ctx, r, m.New)
	}
	before := m.Old
	if m.OldKey {
		before = nil
	}
	return st.add(r, record.OperationUpdate, m.New, before, m.New)
}

// create emits a new row, or a row with a new key. A destination would write an incomplete row from a record without
// some columns, so create reads these from the table. They may already be newer: the change that made them so follows.
// A row that no longer exists has no record, because its delete follows.
func (st *stream) create(ctx context.Context, r *relation, row pg.Tuple) error {
	if r.absent(row) != "" && st.wants(r, st.index+1) {
		if err := r.checkKey(row); err != nil {
			return err
		}
		exists, err := st.now.complete(ctx, r, row, st.begin.XID)
		if err != nil {
			return err
		}
		if !exists {
			st.index++
			st.log.Warn("a row with a new key was gone again before its large values could be read: the record of "+
				"its creation is left out; "+
				"REPLICA IDENTITY FULL would have the server send them", "table", r.id())
			return nil
		}
	}
	return st.add(r, record.OperationCreate, row, nil, row)
}

// checkKey returns an error if the server did not send all columns of the key.
func (r *relation) checkKey(row pg.Tuple) error {
	for _, k := range r.keys {
		if k >= len(row) || row[k].Kind != pg.Text {
			return r.incomplete(fmt.Errorf("the server did not send column %s of its key", r.columns[k].Name))
		}
	}
	return nil
}

// add adds a record.
func (st *stream) add(r *relation, op record.Operation, key, before, after pg.Tuple) error {
	if !st.next(r) {
		return nil
	}
	if err := r.checkKey(key); err != nil {
		return err
	}
	rec := record.Record{Operation: op, Metadata: r.recordMetadata(st, before, after)}
	rec.Position = appendStream(make(record.Position, 0, 96+len(st.seenJSON)), st.begin.Commit, st.index, st.system,
		st.seenJSON)
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
	st.delivered = st.index
	st.records = append(st.records, rec)
	for _, t := range []pg.Tuple{before, after} {
		for i := range t {
			st.bytes += len(t[i].Text) + 16
		}
	}
	return nil
}

// flush emits the records.
func (st *stream) flush(ctx context.Context) bool {
	if len(st.records) == 0 {
		return true
	}
	last, _ := lastPlace(st.records[len(st.records)-1].Position) // add made it, so it is valid
	if !st.Send(ctx, st.records) {
		return false
	}
	st.at = last
	st.records, st.bytes = nil, 0
	return true
}

// truncated warns of truncated tables: records have no operation for it.
func (st *stream) truncated(m *pg.Truncate) {
	for _, oid := range m.Relations {
		if r := st.relations[oid]; r != nil && r.wanted && !st.skip {
			st.log.Warn("a table was truncated: its rows are gone, and no records say so: remove them at the "+
				"destination",
				"table", r.id(), "lsn", st.begin.Commit.String(), "at", st.begin.Time.Format(time.RFC3339))
		}
	}
}

// sendStatuses periodically confirms the acknowledged changes, and requests the server's position.
func (st *stream) sendStatuses(ctx context.Context) {
	tick := time.NewTicker(st.settings.Heartbeat)
	defer tick.Stop()
	for {
		if st.status(true) != nil {
			return // receive gets the same error
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = st.status(false)
			return
		}
	}
}

func (st *stream) status(reply bool) error {
	st.writing.Lock()
	defer st.writing.Unlock()
	_ = st.conn.Conn().SetWriteDeadline(time.Now().Add(st.settings.Heartbeat))
	data := pg.AppendStatus(nil, st.confirmer.confirmed(), time.Now(), reply)
	message, err := (&pgproto3.CopyData{Data: data}).Encode(nil)
	if err != nil {
		return err
	}
	return st.conn.Frontend().SendUnbufferedEncodedCopyData(message)
}

// relation is a table as described by the stream.
type relation struct {
	oid          uint32
	schema, name string
	wanted       bool
	full         bool // replica identity
	columns      []pg.Column
	keys         []int // key columns
	attached     map[string]record.Metadata
	unregistered bool            // registering the last schema failed
	ctx          context.Context // of the session
	common       record.Metadata // shared by complete records of the transaction commonOf
	commonOf     pg.LSN
}

func (r *relation) id() string { return r.schema + "." + r.name }

func (st *stream) relation(ctx context.Context, m *pg.Relation) (*relation, error) {
	r := &relation{oid: m.OID, schema: m.Schema, name: m.Name, full: m.Identity == 'f', ctx: ctx,
		attached: map[string]record.Metadata{}}
	known, err := st.known(ctx, m.OID, r.id())
	if err != nil {
		return nil, err
	}
	r.wanted = known != nil
	if known != nil && (known.IsHeir() || known.Partitions) {
		r.schema, r.name = known.Collection()
	}
	for i, c := range m.Columns {
		r.columns = append(r.columns, pg.Column{Name: c.Name, OID: c.Type})
		if c.Key && !r.full {
			r.keys = append(r.keys, i)
		}
	}
	if known != nil && (r.full || m.Identity == 'n') && len(known.Key) > 0 {
		r.keys = nil
		for _, k := range known.Key {
			if i := slices.IndexFunc(r.columns, func(c pg.Column) bool { return c.Name == k }); i >= 0 {
				r.keys = append(r.keys, i)
			}
		}
	}
	return r, st.describeSchema(ctx, r)
}

// known returns the table for the changes of a table in the stream: the table itself, or its partitioned table if the
// publication publishes partitions. It is nil if the source does not read the table.
func (st *stream) known(ctx context.Context, oid uint32, id string) (*pg.Table, error) {
	if t := st.tables[oid]; t != nil {
		return t, nil
	}
	if t := st.tableOf(id); t != nil {
		return t, nil
	}
	above, err := st.now.ancestors(ctx, oid)
	for _, a := range above {
		if t := st.tables[a]; t != nil {
			return t, err
		}
	}
	return nil, err
}

// describeSchema registers the schema of complete rows, so that an error ends the session.
func (st *stream) describeSchema(ctx context.Context, r *relation) error {
	if !r.wanted {
		return nil
	}
	var m record.Metadata
	if err := st.schemas.attach(ctx, &m, r.name, r.columns, r.keys, ""); err != nil {
		return err
	}
	r.attached[""] = m
	return nil
}

// recordMetadata returns the metadata of a record: its transaction, table and schema.
func (r *relation) recordMetadata(st *stream, before, after pg.Tuple) record.Metadata {
	absent := r.absent(before, after)
	if absent == "" && r.common != nil && r.commonOf == st.begin.Commit {
		return withSpare(r.common)
	}
	attached, ok := r.attached[absent]
	if !ok {
		if err := st.schemas.attach(r.ctx, &attached, r.name, r.columns, r.keys, absent); err != nil {
			if !r.unregistered { // once, not for each record without a schema
				st.log.Warn("cannot register a schema", "table", r.id(), "err", err)
			}
			r.unregistered = true
		} else {
			r.attached[absent], r.unregistered = attached, false
		}
	}
	// The spare capacity is also for the keys that a host adds.
	m := append(make(record.Metadata, 0, len(st.metadata)+len(attached)+4), st.metadata...)
	m.Set(record.KeyCollection, r.name)
	m.Set(metaSchema, r.schema)
	for _, f := range attached {
		m.Set(f.Key, f.Value)
	}
	if absent == "" {
		r.common, r.commonOf = m, st.begin.Commit
		return withSpare(m)
	}
	return m
}

// absent has a byte for each column, x for a column that the record omits. It is empty if the record has all columns.
func (r *relation) absent(tuples ...pg.Tuple) string {
	var mask []byte
	for _, t := range tuples {
		for i := range t {
			if t[i].Kind == pg.Unchanged {
				if mask == nil {
					mask = []byte(strings.Repeat("-", len(r.columns)))
				}
				mask[i] = 'x'
			}
		}
	}
	return string(mask)
}

// values returns the columns of a tuple by name, without those that the server did not send. With keyOnly it returns
// only the key.
func (r *relation) values(t pg.Tuple, keyOnly bool) map[string]any {
	values := make(map[string]any, len(t))
	for i := range t {
		switch {
		case t[i].Kind == pg.Text:
			values[r.columns[i].Name] = pg.Decode(r.columns[i].OID, t[i].Text)
		case t[i].Kind == pg.Null && !keyOnly:
			values[r.columns[i].Name] = nil
		}
	}
	return values
}

func (r *relation) keyChanged(before, after pg.Tuple) bool {
	for _, k := range r.keys {
		if k < len(before) && k < len(after) && before[k].Kind == pg.Text && after[k].Kind == pg.Text &&
			string(before[k].Text) != string(after[k].Text) {
			return true
		}
	}
	return false
}
