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

// guard is a connection whose reads wait as long as the server works on the answer. If no data arrives within the
// timeout, the guard queries the state of the session over another connection. If the session waits for this end or has
// ended, and no data arrives within another half of the timeout, the connection is half-open and the read fails.
type guard struct {
	net.Conn
	server  *server
	session atomic.Pointer[session] // nil: an answer must arrive within the timeout
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
		case waits: // the answer may have arrived during the query
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

// guarded is a session whose connection is a guard.
type guarded struct {
	*sql.Conn
	db  *sql.DB
	net *guard // of the newest connection
}

// openGuarded opens one session on the server. Until watch is called, its answers must arrive within the timeout.
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

// watch makes reads wait as long as the server works on the answer.
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

// waitStates are the states of a session that waits for its answer to be read, or for the rest of a statement.
const waitStates = "'Writing to net', 'Sending to client', 'Reading from net', 'Receiving from client'"

// waits queries whether a session waits for this end or has ended. If end is set, it kills a session that waits. If it
// cannot connect, waits returns true, unless the server has no room for another session.
func (s *server) waits(ctx context.Context, target *session, end bool) bool {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	db, err := s.open(ctx)
	if err != nil {
		return !errors.As(err, new(*mysql.MySQLError)) || !transient(err)
	}
	defer func() { _ = db.Close() }()
	waits, host := false, ""
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT command = 'Sleep' OR coalesce(state, '') IN (%s), host FROM "+
		"information_schema.processlist WHERE id = %d", waitStates, target.id)).Scan(&waits, &host)
	if err != nil || host != target.host {
		return !errors.As(err, new(*mysql.MySQLError))
	}
	if waits && end {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", target.id)) // otherwise the server notices by itself eventually
	}
	return waits
}
