package pgkv

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// maxSessions is the number of sessions that an agent uses at once for reads and writes; a watch uses one more.
const maxSessions = 8

// sessions holds the idle sessions with the server, and limits the number of sessions.
type sessions struct {
	open func(ctx context.Context) (*pgconn.PgConn, error)
	free chan struct{} // one element per session in use

	mu     sync.Mutex
	idle   []*pgconn.PgConn // guarded by mu: the last one used is at the end
	closed bool             // guarded by mu
}

func newSessions(open func(ctx context.Context) (*pgconn.PgConn, error)) *sessions {
	return &sessions{open: open, free: make(chan struct{}, maxSessions)}
}

// use calls f with a session. After an error it closes that session and all idle ones: most likely they were lost, too.
func (s *sessions) use(ctx context.Context, f func(*pgconn.PgConn) error) error {
	select {
	case s.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.free }()
	conn, err := s.take(ctx)
	if err == nil {
		err = contained(func() error { return f(conn) })
	}
	if err != nil {
		pg.Close(conn)
		s.closeIdle(false)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go pg.Close(conn)
		return nil
	}
	s.idle = append(s.idle, conn)
	return nil
}

// take returns an idle session, or a new one.
func (s *sessions) take(ctx context.Context) (*pgconn.PgConn, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		defer s.mu.Unlock()
		conn := s.idle[last]
		s.idle = s.idle[:last]
		return conn, nil
	}
	s.mu.Unlock()
	return s.open(ctx)
}

// closeIdle closes the idle sessions.
func (s *sessions) closeIdle(forGood bool) {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, s.closed || forGood
	s.mu.Unlock()
	for _, conn := range idle {
		pg.Close(conn)
	}
}

// close closes all sessions; those in use are closed after use.
func (s *sessions) close() { s.closeIdle(true) }

// contained calls f and returns a panic in f as an error: a server that answers with unexpected columns must not end
// the agent.
func contained(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("cannot read the answer of PostgreSQL: %v", v)
		}
	}()
	return f()
}
