package inspect

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/api/guard"
)

// client is the connection of a session.
type client interface {
	send(message []byte) error // returns an error if the client does not take it in time
	ping() error               // returns an error if the client does not answer in time
	left() <-chan struct{}     // closed when the client has ended the session
	close(why closeReason)     // ends the session
}

// closeReason is the reason for which the server ends a session.
type closeReason struct {
	status websocket.StatusCode
	text   string
}

func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// socket is a client that receives messages over WebSocket.
type socket struct {
	conn   *websocket.Conn
	under  *connection     // of conn
	ctx    context.Context // ends when the session has had the time to end
	answer time.Duration   // for the client to receive a message, or to answer a ping
	gone   chan struct{}   // closed when the client has ended the session
}

// accept answers the request for a WebSocket. If the answer is an error in the request, it returns nil.
func accept(ctx context.Context, w http.ResponseWriter, r *http.Request, answer time.Duration) *socket {
	taken := &hijacker{ResponseWriter: w}
	// The origin has been checked already.
	conn, err := websocket.Accept(taken, r,
		&websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"conduit"}})
	if err != nil {
		return nil // Accept answered
	}
	c := &socket{conn: conn, under: taken.conn, ctx: ctx, answer: answer, gone: make(chan struct{})}
	go c.read()
	return c
}

// read answers the pings of the client until it leaves. Clients send no data. It is no CloseRead of the library because
// that waits for itself for 15 s after a client has sent data.
func (c *socket) read() {
	defer close(c.gone)
	if _, _, err := c.conn.Reader(c.ctx); err == nil {
		c.close(closeReason{websocket.StatusPolicyViolation, "unexpected data message"})
	}
}

func (c *socket) send(message []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.answer)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, message)
}

func (c *socket) ping() error {
	ctx, cancel := context.WithTimeout(c.ctx, c.answer)
	defer cancel()
	return c.conn.Ping(ctx)
}

func (c *socket) left() <-chan struct{} { return c.gone }

// close gives the client closeTimeout to answer. The library alone would give it ten seconds, and for the rest of a
// message that it has begun any time.
func (c *socket) close(why closeReason) {
	c.under.closing.Store(true)
	late := time.AfterFunc(closeTimeout, func() { c.under.Close() })
	defer late.Stop()
	_ = c.conn.Close(why.status, why.text) // the client may be gone
}

// hijacker lets the library take over a connection whose response writer is wrapped.
type hijacker struct {
	http.ResponseWriter
	conn *connection
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = &connection{Conn: conn}
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
}

// connection is the connection of a WebSocket. When a client answers the close frame of the server, the library sends
// another one, which browsers report as an error. So connection writes the first one only. The library writes a close
// frame with one call.
type connection struct {
	net.Conn
	closing atomic.Bool // the session is over, so that no message follows
	closed  atomic.Bool // the close frame was written
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	const final, opClose = 0x80, 0x8
	if c.closing.Load() && len(b) > 0 && b[0] == final|opClose && c.closed.Swap(true) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// lines is a client that receives messages as the lines of an endless response.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	request context.Context // ends when the client has left
	ctx     context.Context // ends when the session has had the time to end
	answer  time.Duration   // for the client to receive a message
}

// stream begins the response. Its connection no longer counts towards the limit of connections.
func stream(ctx context.Context, w http.ResponseWriter, r *http.Request, answer time.Duration) *lines {
	c := &lines{w: w, control: http.NewResponseController(w), request: r.Context(), ctx: ctx, answer: answer}
	guard.Release(r)
	w.Header().Set("Connection", "close") // its slot is released
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	_ = c.control.SetReadDeadline(time.Time{}) // some writers have no deadlines
	w.WriteHeader(http.StatusOK)
	_ = c.control.Flush() // the next flush fails, too
	return c
}

func (c *lines) send(message []byte) error {
	_ = c.control.SetWriteDeadline(time.Now().Add(c.answer))
	if err := c.ctx.Err(); err != nil { // expire may have set an earlier deadline
		return err
	}
	if _, err := c.w.Write(message); err != nil {
		return err
	}
	if _, err := io.WriteString(c.w, "\n"); err != nil {
		return err
	}
	return c.control.Flush()
}

// expire makes send fail.
func (c *lines) expire() { _ = c.control.SetWriteDeadline(time.Now()) }

func (c *lines) ping() error { return nil }

func (c *lines) left() <-chan struct{} { return c.request.Done() }

func (c *lines) close(closeReason) {} // the response ends
