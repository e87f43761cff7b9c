package pgkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Store is a table. Its methods may be called by several goroutines.
type Store struct {
	options     Options
	sql         statements
	sessions    *sessions
	incarnation atomic.Pointer[string] // nil until Ready
	fails       notify.Throttle
}

// Open returns the store of a cluster. It connects on first use.
func Open(o Options) (*Store, error) {
	if _, err := pg.ParseConfig(context.Background(), o.URL); err != nil {
		return nil, fmt.Errorf("cluster.postgres.url %w", err)
	}
	if most := maxIdentifier - len(tablePrefix); len(o.Cluster) > most {
		return nil, fmt.Errorf("cannot keep the claims of the cluster %q in PostgreSQL: cluster.name must not have "+
			"more than %d bytes", o.Cluster, most)
	}
	return &Store{
		options: o, sql: statementsOf(o.Cluster), sessions: newSessions(o.connect),
		fails: notify.Throttle{Fails: "cannot write the state of the cluster to PostgreSQL, trying again",
			Recovered: "the state of the cluster can be written to PostgreSQL again"},
	}, nil
}

// connect opens a session.
func (o *Options) connect(ctx context.Context) (*pgconn.PgConn, error) {
	if o.Password == nil {
		return pg.Connect(ctx, o.URL, nil)
	}
	password, err := o.Password()
	if err != nil {
		return nil, err
	}
	return pg.ConnectAs(ctx, o.URL, password)
}

var (
	errNotReady = errors.New("cannot use PostgreSQL for the cluster: its table has not been checked yet")
	errAnother  = errors.New("the table of the cluster was recreated since this agent joined: restart all members " +
		"after you have restored it")
)

// Write performs a compare-and-swap. It returns when the store has answered or ctx ends. A write during which the
// session was lost may be applied later.
func (s *Store) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	var o protocol.Outcome
	err := s.use(ctx, func(conn *pgconn.PgConn, incarnation string) (err error) {
		o, err = s.swap(ctx, conn, incarnation, w)
		return err
	})
	s.fails.Observe(s.options.Log.With("component", "cluster"), err)
	switch code := pg.Code(err); {
	case err == nil:
		return o
	case code == pg.CodeSerialization || code == pg.CodeDeadlock:
		return protocol.Outcome{Result: protocol.Busy}
	}
	return protocol.Outcome{Result: protocol.Unknown}
}

// use calls f with a session. The session is closed when f fails: the server may have become read-only.
func (s *Store) use(ctx context.Context, f func(conn *pgconn.PgConn, incarnation string) error) error {
	incarnation := s.incarnation.Load()
	if incarnation == nil {
		return errNotReady
	}
	return s.sessions.use(ctx, func(conn *pgconn.PgConn) error { return f(conn, *incarnation) })
}

func (s *Store) swap(
	ctx context.Context, conn *pgconn.PgConn, incarnation string, w protocol.Write,
) (protocol.Outcome, error) {
	sql, args := s.sql.create, [][]byte{[]byte(w.Key), w.Value, w.State, nil, []byte(incarnation)}
	if w.TTL != 0 {
		args[3] = []byte(fmt.Sprint(w.TTL.Microseconds()))
	}
	if w.Revision != 0 {
		sql, args = s.sql.update, append(args, []byte(fmt.Sprint(w.Revision)))
	}
	rows, err := query(ctx, conn, 1, sql, args...)
	if err != nil {
		return protocol.Outcome{}, err
	}
	if len(rows) == 1 {
		revision, err := strconv.ParseUint(string(rows[0][0]), 10, 64)
		return protocol.Outcome{Result: protocol.Applied, Revision: revision}, err
	}
	// The statement saw the table at its start, which may be before the write that it lost to.
	e, err := s.read(ctx, conn, incarnation, w.Key)
	return protocol.Outcome{Result: protocol.Conflict, Revision: e.Revision}, err
}

// Read returns the entry of a key.
func (s *Store) Read(ctx context.Context, key string) (protocol.Entry, error) {
	var e protocol.Entry
	err := s.use(ctx, func(conn *pgconn.PgConn, incarnation string) (err error) {
		e, err = s.read(ctx, conn, incarnation, key)
		return err
	})
	if err != nil {
		return protocol.Entry{}, fmt.Errorf("cannot read %s from PostgreSQL: %w", key, err)
	}
	return e, nil
}

func (s *Store) read(ctx context.Context, conn *pgconn.PgConn, incarnation, key string) (protocol.Entry, error) {
	r := conn.ExecParams(ctx, s.sql.read, [][]byte{[]byte(key)}, nil, nil, []int16{0, 0, 1, 0}).Read()
	if r.Err != nil {
		return protocol.Entry{}, r.Err
	}
	e := protocol.Entry{Key: key}
	is := ""
	for _, row := range r.Rows {
		if string(row[0]) == incarnationKey {
			is = string(row[1])
			continue
		}
		revision, err := strconv.ParseUint(string(row[3]), 10, 64)
		if err != nil {
			return protocol.Entry{}, err
		}
		e.Value, e.State, e.Revision = row[1], row[2], revision
	}
	if is != incarnation {
		return protocol.Entry{}, errAnother
	}
	return e, nil
}

// query runs a statement. Its third argument is binary; all other arguments and the results are text. It returns an
// error unless rows have at least this number of columns.
func query(ctx context.Context, conn *pgconn.PgConn, columns int, sql string, args ...[]byte) ([][][]byte, error) {
	r := conn.ExecParams(ctx, sql, args, nil, []int16{0, 0, 1, 0, 0, 0}[:len(args)], nil).Read()
	for _, row := range r.Rows {
		if len(row) < columns {
			return nil, fmt.Errorf("the server answers with %d columns instead of %d", len(row), columns)
		}
	}
	return r.Rows, r.Err
}

// Close ends all sessions.
func (s *Store) Close() { s.sessions.close() }

// timeout bounds requests without a deadline of the caller.
const timeout = 5 * time.Second
