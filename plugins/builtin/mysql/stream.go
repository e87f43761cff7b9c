package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
)

// stream is a replication session.
type stream struct {
	*Source
	conn    *binlog.Conn
	decoder binlog.Decoder
	began   uint32 // creation time of file

	generation int   // of tables
	seen       *seen // as of now

	file    string      // of the log
	now     place       // the end of the last transaction
	resumed bool        // the stream has passed the transaction that was emitted in part
	tx      transaction // the current transaction

	records []record.Record
	indexes []int64 // of the records of the current transaction, which are the last ones
	bytes   int
}

// transaction is a transaction of the log.
type transaction struct {
	open       bool
	begun      bool // by BEGIN; COMMIT or the like ends it
	number     int64
	gtid       string
	add        func(*binlog.GTIDSet) // adds its GTID
	maria      bool
	standalone bool
	index      int64 // of the last record
	skip       int64 // records up to this index were emitted before
	hidden     bool  // rows of a snapshot contain it
	at         time.Time
	metadata   record.Metadata
	prefix     []byte // of positions
	suffix     []byte
}

// stream reads and emits the changes after s.at.
func (s *Source) stream(ctx context.Context, connected func()) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	st := &stream{Source: s, conn: conn, seen: s.seen, resumed: s.at.index == 0}
	st.now = s.at.clone()
	st.now.in, st.now.index = "", 0
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	if err := st.start(); err != nil {
		return s.explain(err)
	}
	connected()
	return s.explain(st.receive(ctx))
}

// start requests the log from s.at.
func (st *stream) start() error {
	id := st.settings.ServerID
	for id == 0 {
		id = rand.Uint32()
	}
	set := []string{
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %d",
			st.settings.Heartbeat.Nanoseconds(), st.settings.Heartbeat.Nanoseconds()),
		"SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'",
	}
	if st.server.maria {
		set = append(set, "SET @mariadb_slave_capability = 4", "SET @slave_connect_state = '"+st.at.set.String()+"'",
			"SET @slave_gtid_strict_mode = 1", "SET @slave_gtid_ignore_duplicates = 0")
	}
	for _, sql := range set {
		if err := st.conn.Exec(sql); err != nil {
			return fmt.Errorf("cannot begin to read the binary log: %w", err)
		}
	}
	if err := st.conn.Register(id, "conduit"); err != nil {
		return fmt.Errorf("cannot register as a replica: %w", err)
	}
	switch {
	case st.server.maria:
		return st.conn.Dump(id, "", 4)
	case st.server.gtids:
		return st.conn.DumpGTID(id, st.at.set.Encode())
	}
	if st.at.pos > 1<<32-1 {
		return fmt.Errorf("cannot begin to read the binary log at %s:%d: the protocol allows no position after 4 "+
			"GiB: run SET GLOBAL max_binlog_size = 1073741824", st.at.file, st.at.pos)
	}
	return st.conn.Dump(id, st.at.file, uint32(st.at.pos))
}

// receive handles the events of the server until the session ends.
func (st *stream) receive(ctx context.Context) error {
	for {
		if !st.conn.Buffered() && !st.flush(ctx) {
			return ctx.Err()
		}
		raw, err := st.conn.Event(3 * st.settings.Heartbeat)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot read the binary log: %w", err)
		}
		h, event, err := st.decoder.Decode(raw)
		if err != nil {
			return err
		}
		if err := st.event(ctx, &h, event); err != nil {
			return err
		}
	}
}

func (st *stream) event(ctx context.Context, h *binlog.Header, event any) error {
	switch e := event.(type) {
	case *binlog.Format:
		return st.checkLog(h)
	case *binlog.Rotate:
		st.rotate(h, e)
	case *binlog.GTID:
		return st.begin(h, e)
	case *binlog.Query:
		return st.query(ctx, h, e)
	case *binlog.Rows:
		return st.rows(ctx, h, e)
	case *binlog.XID, *binlog.XAPrepare:
		return st.commit(h)
	case *binlog.Payload:
		return st.payload(ctx, h, e)
	case *binlog.Heartbeat:
		st.idle(h)
	case *binlog.Incident:
		return st.lost("the server lost events (" + e.Message + ")")
	case *binlog.Unsupported:
		return st.lost("the binary log has an event that cannot be read: " + e.Reason)
	}
	return nil
}

// payload handles the events of a compressed transaction.
func (st *stream) payload(ctx context.Context, outer *binlog.Header, p *binlog.Payload) error {
	defer p.Close()
	for {
		_, event, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.event(ctx, outer, event); err != nil {
			return err
		}
	}
}

// rotate records the file of the following events. The server also sends this event first, for the file at which it
// starts.
func (st *stream) rotate(h *binlog.Header, e *binlog.Rotate) {
	st.file = e.File
	if !st.tx.open && !h.Artificial() {
		st.now.file, st.now.pos, st.now.began = e.File, e.Pos, 0
		st.moved()
	}
}

// checkLog compares the creation time of a log file with the recorded one: after RESET MASTER the same name is another
// file.
func (st *stream) checkLog(h *binlog.Header) error {
	if st.file == st.now.file && st.now.began == 0 {
		st.now.began = h.Time
	}
	if st.file == st.now.file && st.now.began != h.Time && st.now.server == st.server.id {
		return st.lost(fmt.Sprintf("the binary log was reset (RESET MASTER): %s was created at %s, and before at %s",
			st.file,
			time.Unix(int64(h.Time), 0).UTC().Format(time.RFC3339),
			time.Unix(int64(st.now.began), 0).UTC().Format(time.RFC3339)))
	}
	st.began = h.Time
	return nil
}

// begin begins a transaction.
func (st *stream) begin(h *binlog.Header, g *binlog.GTID) error {
	tx := transaction{open: true, number: st.tx.number + 1, maria: g.MariaDB, standalone: g.Standalone,
		at: time.Unix(int64(h.Time), 0)}
	st.now.file, st.now.began, st.now.server = st.file, st.began, st.server.id
	if h.End > h.Size {
		st.now.pos = uint64(h.End - h.Size)
	}
	switch {
	case g.MariaDB:
		tx.gtid = binlog.FormatMariaGTID(g.Domain, g.ServerID, g.Sequence)
		tx.add = func(s *binlog.GTIDSet) { s.AddMaria(g.Domain, g.ServerID, g.Sequence) }
		tx.hidden = st.seen.hasMaria(g.Domain, g.Sequence)
		if !st.resumed && tx.gtid != st.at.in && strings.HasPrefix(st.at.in, fmt.Sprintf("%d-", g.Domain)) {
			return st.lost(fmt.Sprintf("the source has read a part of transaction %s, but the binary log of this "+
				"server has %s in its place", st.at.in, tx.gtid))
		}
	case g.Sequence > 0:
		tx.gtid = binlog.FormatMySQLGTID(g.UUID, g.Sequence)
		tx.add = func(s *binlog.GTIDSet) { s.AddMySQL(g.UUID, g.Sequence) }
		tx.hidden = st.seen.hasMySQL(g.UUID, g.Sequence)
		if st.now.set.HasMySQL(g.UUID, g.Sequence) {
			return st.lost("the server sent transaction " + tx.gtid + " again, which the source has already read")
		}
	default:
		tx.hidden = st.seen.hasPlace(st.now.file, st.now.pos)
	}
	if g.Committed > 0 {
		tx.at = time.UnixMicro(int64(g.Committed))
	}
	st.open(tx)
	return nil
}

// open makes tx the current transaction.
func (st *stream) open(tx transaction) {
	if !st.resumed && tx.gtid == st.at.in {
		tx.skip, st.resumed = st.at.index, true
	}
	if st.seen != nil && !tx.hidden { // the log has passed the transactions of the snapshot
		st.seen = nil
	}
	tx.prefix = st.now.append(nil, typeStream)
	if tx.gtid != "" {
		tx.prefix = append(append(append(tx.prefix, `,"in":"`...), tx.gtid...), '"')
	}
	tx.suffix = st.suffix(st.seen)
	tx.metadata = record.NewMetadata(map[string]string{
		record.KeyCreatedAt: fmt.Sprint(tx.at.UnixNano()), metaFile: st.now.file, metaPos: fmt.Sprint(st.now.pos),
		metaTime: tx.at.UTC().Format(time.RFC3339Nano),
	})
	if tx.gtid != "" {
		tx.metadata.Set(metaGTID, tx.gtid)
	}
	st.tx = tx
}

// firstWord skips comments and returns the first word of a statement in capitals, and the rest.
func firstWord(sql string) (word, rest string) {
	for sql = strings.TrimSpace(sql); strings.HasPrefix(sql, "/*") &&
		!strings.HasPrefix(sql, "/*!"); sql = strings.TrimSpace(sql) {
		_, sql, _ = strings.Cut(sql, "*/")
	}
	end := strings.IndexFunc(sql, func(c rune) bool {
		return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '/' || c == '('
	})
	if end < 0 {
		end = len(sql)
	}
	return strings.ToUpper(sql[:end]), strings.TrimSpace(sql[end:])
}

// query handles a statement.
func (st *stream) query(ctx context.Context, h *binlog.Header, q *binlog.Query) error {
	word, rest := firstWord(q.SQL)
	switch word {
	case "BEGIN":
		if !st.tx.open { // a log without GTIDs, which has no event for it
			st.open(transaction{number: st.tx.number + 1, open: true, at: time.Unix(int64(h.Time), 0),
				hidden: st.seen.hasPlace(st.now.file, st.now.pos)})
		}
		st.tx.begun = true
		return nil
	case "COMMIT":
		return st.commit(h)
	case "ROLLBACK":
		st.log.Warn("the binary log has a transaction that was rolled back only in part, because some of its tables "+
			"have no transactions", "gtid", st.tx.gtid)
		if next, _ := firstWord(rest); next == "TO" { // a savepoint
			return nil
		}
		return st.commit(h)
	case "SAVEPOINT", "RELEASE":
		return nil
	case "XA":
		return st.xa(h, rest)
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "SET":
		if err := st.statement(q); err != nil {
			return err
		}
	default:
		st.warnOfStatement(q)
	}
	st.changed()
	if strings.Contains(strings.ToUpper(q.SQL), "REFERENCES") {
		if err := st.warnOfCascades(ctx); err != nil {
			return err
		}
	}
	if st.tx.open && st.tx.maria && !st.tx.standalone || st.tx.begun {
		return nil
	}
	if strings.HasSuffix(strings.ToUpper(q.SQL), "START TRANSACTION") { // of CREATE TABLE … SELECT, whose rows follow
		st.tx.begun = true
		return nil
	}
	return st.commit(h)
}

// changed drops the cached descriptions of tables.
func (st *stream) changed() {
	clear(st.tables)
	st.generation++
}

// xa handles the statements of XA transactions. The stream emits their rows when they are prepared.
func (st *stream) xa(h *binlog.Header, rest string) error {
	switch verb, _ := firstWord(rest); verb {
	case "START", "BEGIN", "END":
		st.tx.begun = true
		return nil
	case "ROLLBACK":
		st.log.Warn("an XA transaction was rolled back after the source emitted its prepared changes", "statement",
			rest)
	}
	return st.commit(h)
}

// statement refuses a change that the log has as a statement instead of rows, unless it concerns other tables.
func (st *stream) statement(q *binlog.Query) error {
	if strings.Contains(q.SQL, "generated by server") { // a table in memory, which is empty after a restart
		st.log.Warn("a MEMORY table lost its rows when the server restarted; there are no delete records for them",
			"statement", q.SQL, "database", q.Schema)
		return nil
	}
	if word, rest := firstWord(q.SQL); word == "SET" && !strings.HasPrefix(strings.ToUpper(rest), "STATEMENT") {
		return nil
	}
	text := strings.ToLower(q.SQL)
	for _, p := range st.settings.patterns {
		if p.Name == "*" && (q.Schema == p.Schema || strings.Contains(text, strings.ToLower(p.Schema))) ||
			p.Name != "*" && strings.Contains(text, strings.ToLower(p.Name)) {
			return st.lost("the binary log has a statement instead of rows, because binlog_format was not ROW in " +
				"the session that ran it")
		}
	}
	return nil
}

// lost returns the error for changes that cannot be read.
func (st *stream) lost(why string) error {
	return fmt.Errorf("changes after %s were missed: %s. %s", st.now.String(), why, newSnapshot)
}

// commit ends the transaction.
func (st *stream) commit(h *binlog.Header) error {
	st.now.file, st.now.began, st.now.server = st.file, st.began, st.server.id
	if h.End != 0 {
		st.now.pos = uint64(h.End)
	}
	if st.tx.add != nil {
		st.tx.add(&st.now.set)
	}
	if n := len(st.records); n > 0 && len(st.indexes) > 0 {
		st.records[n-1].Position = append(st.now.append(nil, typeStream), st.tx.suffix...)
	}
	if st.tx.index < st.tx.skip {
		return st.lost(fmt.Sprintf("transaction %s has %d changes, but the source has already emitted %d changes "+
			"with this id: it is another transaction",
			st.tx.gtid, st.tx.index, st.tx.skip))
	}
	st.indexes = st.indexes[:0]
	st.tx = transaction{number: st.tx.number}
	st.moved()
	st.monitor.committed(time.Unix(int64(h.Time), 0), st.now.file, st.now.pos)
	return nil
}

// moved records the end of the last transaction as the place to resume from, if no record does.
func (st *stream) moved() {
	if len(st.records) > 0 || st.tx.open {
		return
	}
	in, index := st.at.in, st.at.index
	st.at, st.Source.seen = st.now.clone(), st.seen
	if !st.resumed {
		st.at.in, st.at.index = in, index
	}
}

// idle records that the server has no more changes.
func (st *stream) idle(h *binlog.Header) {
	if st.tx.open || len(st.records) > 0 {
		return
	}
	st.monitor.caughtUp(st.file, uint64(h.End))
}
