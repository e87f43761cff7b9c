package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// guard is a connection on which an answer is waited for as long as the server works on it. When nothing has come for as
// long as the timeout, the server is asked over another connection what the session does. When it waits for this end in
// turn, or has ended, and still nothing has come after half as long more, the connection is half-open.
type guard struct {
	net.Conn
	server  *server
	session atomic.Pointer[session] // nil: an answer has to come within the timeout
	closed  context.Context
	close   context.CancelFunc
}

// Read implements net.Conn.
func (g *guard) Read(b []byte) (int, error) {
	for suspected := false; ; {
		n, err := g.Conn.Read(b)
		session := g.session.Load()
		if n > 0 || session == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		limit := g.server.Timeout
		switch waits := g.server.waits(g.closed, session, suspected); {
		case waits && suspected:
			return n, err
		case waits: // the answer may have come while the server was asked
			suspected, limit = true, limit/2
		default:
			suspected = false
		}
		if err := g.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return 0, err
		}
	}
}

// Close implements net.Conn.
func (g *guard) Close() error {
	g.close()
	return g.Conn.Close()
}

// guarded is a session with a guard.
type guarded struct {
	*sql.Conn
	db  *sql.DB
	net *guard // of the last connection that was made
}

// openGuarded connects to the server for one session. Its answers have to come within the timeout until watch is called.
func (s *server) openGuarded(ctx context.Context) (*guarded, error) {
	c := &guarded{}
	var err error
	c.db, err = s.openWith(ctx, func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.net = &guard{Conn: conn, server: s}
		c.net.closed, c.net.close = context.WithCancel(context.WithoutCancel(ctx))
		return c.net, nil
	})
	if err != nil {
		return nil, err
	}
	if c.Conn, err = c.db.Conn(ctx); err != nil {
		_ = c.db.Close()
		return nil, fmt.Errorf("cannot connect to MySQL: %w", err)
	}
	return c, nil
}

const sessionQuery = "SELECT id, host FROM information_schema.processlist WHERE id = "

// watch has answers waited for as long as the server works on them.
func (c *guarded) watch(ctx context.Context) error {
	own := &session{}
	if err := c.QueryRowContext(ctx, sessionQuery+"connection_id()").Scan(&own.id, &own.host); err != nil {
		return fmt.Errorf("cannot find the session in information_schema.processlist: %w", err)
	}
	c.net.session.Store(own)
	return nil
}

// Close ends the session.
func (c *guarded) Close() { _, _ = c.Conn.Close(), c.db.Close() }

// States of a session that writes an answer which is not taken, and of one that reads a statement.
const waitStates = "'Writing to net', 'Sending to client', 'Reading from net', 'Receiving from client'"

// waits asks the server whether a session waits for this end, or has ended; with end it is ended in the first case. A server
// that cannot be asked counts as one whose sessions have ended, unless it is one that has no room for another session.
func (s *server) waits(ctx context.Context, of *session, end bool) bool {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	db, err := s.open(ctx)
	if err != nil {
		return !errors.As(err, new(*mysql.MySQLError)) || !transient(err)
	}
	defer func() { _ = db.Close() }()
	waits, host := false, ""
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT command = 'Sleep' OR coalesce(state, '') IN (%s), host FROM information_schema.processlist WHERE id = %d", waitStates, of.id)).Scan(&waits, &host)
	if err != nil || host != of.host {
		return !errors.As(err, new(*mysql.MySQLError))
	}
	if waits && end {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", of.id)) // otherwise the server notices by itself, some time
	}
	return waits
}
