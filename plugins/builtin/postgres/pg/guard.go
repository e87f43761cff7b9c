package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ConnectGuarded opens a session like Connect, but does not wait forever for a server that has disappeared. If no data
// arrives for silence while an answer is due, it queries the state of the session over another connection. As long as
// the server works on the answer, the session waits. If the server waits for this end, and still does after another
// half of silence, the connection is half-open: it is closed, and the session is terminated, which releases its locks.
func ConnectGuarded(
	ctx context.Context, url string, silence time.Duration, params map[string]string,
) (*pgconn.PgConn, error) {
	var g *guard
	conn, err := connect(ctx, url, params, "", func(dial pgconn.DialFunc) pgconn.DialFunc {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			g = &guard{Conn: c, silence: silence, env: context.WithoutCancel(ctx), url: url,
				redial: func(ctx context.Context) (net.Conn, error) {
					return dial(ctx, network, addr)
				}}
			return g, nil
		}
	})
	if err == nil {
		g.set(func() { g.pid = conn.PID() })
	}
	return conn, err
}

// guard is a connection whose reads fail when it is half-open.
type guard struct {
	net.Conn
	silence time.Duration
	env     context.Context // has the sdk.Env of the session, and is never canceled
	url     string
	redial  func(context.Context) (net.Conn, error) // connects to the same server

	mu       sync.Mutex
	pid      uint32             // of the session; 0: not started
	deadline time.Time          // for reading, as set by the user of the connection
	since    time.Time          // last time data was received or sent
	sent     int                // bytes since data was received
	cancel   context.CancelFunc // of the query; nil: no query is running
}

func (g *guard) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// SetDeadline implements net.Conn.
func (g *guard) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (g *guard) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = t
	if g.late() && g.cancel != nil {
		g.cancel()
	}
	return g.limit(g.end())
}

// late reports whether the deadline has passed. The caller holds mu.
func (g *guard) late() bool { return !g.deadline.IsZero() && !g.deadline.After(time.Now()) }

// slowest is the minimum throughput of a network in bytes per second. Data accepted by the kernel may take long to
// arrive.
const slowest = 64 << 10

// end returns the time at which the silence is too long; zero: never. The caller holds mu.
func (g *guard) end() time.Time {
	if g.pid == 0 {
		return time.Time{}
	}
	return g.since.Add(g.silence + time.Duration(g.sent/slowest)*time.Second)
}

// limit makes reads end at t, or at the deadline if that is earlier. The caller holds mu.
func (g *guard) limit(t time.Time) error {
	if t.IsZero() || !g.deadline.IsZero() && g.deadline.Before(t) {
		t = g.deadline
	}
	return g.Conn.SetReadDeadline(t)
}

// Write implements net.Conn.
func (g *guard) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	g.set(func() { g.since, g.sent = time.Now(), g.sent+n })
	return n, err
}

// Read implements net.Conn.
func (g *guard) Read(b []byte) (int, error) {
	g.set(func() { g.since = time.Now() })
	for suspected := false; ; {
		n, err := g.read(b, suspected)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			g.set(func() { g.sent = 0 })
			return n, err
		}
		g.mu.Lock()
		late, silent := g.late() || g.pid == 0, !g.end().After(time.Now())
		g.mu.Unlock()
		switch {
		case late:
			return n, err
		case !silent: // data was sent meanwhile
			suspected = false
		case !g.waits(suspected):
			suspected = false
			g.set(func() { g.since = time.Now() })
		case !suspected: // the answer may have arrived during the query
			suspected = true
		default:
			_ = g.Close()
			return 0, &net.OpError{Op: "read", Net: "tcp", Addr: g.RemoteAddr(),
				Err: fmt.Errorf("the connection is half-open: the server sent nothing for %v, and is itself waiting",
					g.silence)}
		}
	}
}

func (g *guard) read(b []byte, suspected bool) (int, error) {
	g.mu.Lock()
	end := g.end()
	if suspected {
		end = time.Now().Add(g.silence / 2)
	}
	err := g.limit(end)
	g.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return g.Conn.Read(b)
}

const (
	// A pooler numbers its sessions itself, so the server's number is unknown.
	waitQuery = `SELECT pg_catalog.pg_backend_pid(), coalesce((SELECT coalesce(a.wait_event, '')
		FROM pg_catalog.pg_stat_activity a WHERE a.pid = $1::int AND a.usename = session_user), 'gone')`
	endQuery = `SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity a
		WHERE a.pid = $1::int AND a.usename = session_user AND a.wait_event IN ('ClientRead', 'ClientWrite')`
)

// waits queries whether the session waits for this end, or has ended. If end is set, it terminates a session that
// waits. If it cannot connect, for example because the password was replaced, or the network fails, it returns true. If
// the server rejects the query or has no room for another session, it returns false.
func (g *guard) waits(end bool) bool {
	ctx, cancel := context.WithTimeout(g.env, g.silence)
	defer cancel()
	g.set(func() {
		if g.cancel = cancel; g.late() {
			cancel()
		}
	})
	defer g.set(func() { g.cancel = nil })
	conn, err := connect(ctx, g.url, nil, "", func(pgconn.DialFunc) pgconn.DialFunc {
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return g.redial(ctx) }
	})
	if err != nil {
		return !strings.HasPrefix(Code(err), classResources) // a server without room for another session is working
	}
	defer Close(conn)
	pid := strconv.FormatUint(uint64(g.pid), 10)
	r, err := Row(ctx, conn, waitQuery, pid)
	if err != nil || r[0] != strconv.FormatUint(uint64(conn.PID()), 10) {
		return err != nil && Code(err) == ""
	}
	switch r[1] {
	case "ClientRead", "ClientWrite":
		if end {
			_, _ = Rows(ctx, conn, endQuery, pid) // otherwise the server notices by itself eventually
		}
		return true
	}
	return r[1] == "gone"
}
