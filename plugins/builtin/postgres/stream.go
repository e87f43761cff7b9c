package postgres

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// stream is a session of logical replication. It converts the changes that the server sends to records, and emits them.
type stream struct {
	*Source
	conn *pgconn.PgConn
	now  current

	writing sync.Mutex // guards the connection while a status is sent

	relations map[uint32]*relation // by OID, as the server described them last
	tx        transaction

	records []record.Record // to emit
	bytes   int             // approximate size of records
}

// transaction is the transaction that the server is sending, or sent last.
type transaction struct {
	pg.Begin
	open     bool
	index    int64           // of the last change
	emitted  int64           // index of the last change with a record; 0: none
	skip     bool            // an earlier session emitted all its records
	hidden   bool            // the rows of a snapshot contain its changes
	metadata record.Metadata // common to its records
	seenJSON []byte          // part of the positions until the stream has passed the snapshot
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
			if err := st.handleFrame(ctx, m.Data); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			return st.explain(ctx, pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyDone:
			return fmt.Errorf("the server ended replication: %w", io.ErrUnexpectedEOF)
		}
	}
}

// handleFrame handles a frame of the replication protocol: a keepalive, or a message with a part of the log.
func (st *stream) handleFrame(ctx context.Context, data []byte) error {
	f, err := pg.ParseFrame(data)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *pg.Keepalive:
		if !st.tx.open {
			st.confirmer.idle(f.End)
			st.monitor.caughtUp(f.End)
		}
		if f.Reply {
			return st.sendStatus(false)
		}
	case *pg.XLogData:
		m, err := pg.ParseMessage(f.Data)
		if err != nil {
			return err
		}
		if err := st.handle(ctx, m); err != nil {
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

// sendStatuses periodically confirms the acknowledged changes, and requests the server's position.
func (st *stream) sendStatuses(ctx context.Context) {
	tick := time.NewTicker(st.settings.Heartbeat)
	defer tick.Stop()
	for {
		if st.sendStatus(true) != nil {
			return // receive gets the same error
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = st.sendStatus(false)
			return
		}
	}
}

// sendStatus confirms the acknowledged changes. With reply it requests a keepalive, which has the end of the log.
func (st *stream) sendStatus(reply bool) error {
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
