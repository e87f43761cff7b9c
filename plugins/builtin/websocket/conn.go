package websocket

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nhooyr.io/websocket"
)

// Statuses with which a connector closes a connection.
const (
	statusDone    = websocket.StatusNormalClosure
	statusLeaving = websocket.StatusGoingAway
	statusRefused = websocket.StatusPolicyViolation
	statusTooBig  = websocket.StatusMessageTooBig
)

// closeTime is the time that the other side has to answer a close frame.
const closeTime = time.Second

// conn is an open WebSocket. It sends pings, and is dead when the other side answers none.
type conn struct {
	ws      *websocket.Conn
	under   *watched
	timeout time.Duration

	ctx     context.Context // ends when the connection is closed
	cancel  context.CancelFunc
	pinging sync.WaitGroup
	paused  atomic.Bool // nobody reads, so that an answer to a ping could not be received

	ended chan struct{} // closed when discard has ended
	err   error         // why discard has ended; set before ended is closed
}

// newConn returns an opened connection. The caller must close it.
func newConn(ws *websocket.Conn, under *watched, s *endpointSettings) *conn {
	ws.SetReadLimit(-1) // readers have limits of their own
	c := &conn{ws: ws, under: under, timeout: s.Timeout, ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pinging.Go(func() { c.ping(s.PingInterval) })
	return c
}

// ping sends pings until the connection is closed. watched notices when the answers are missing. While nobody reads
// there are no pings: their answers could not be sent behind a message that waits, and some peers then give up.
func (c *conn) ping(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		if c.paused.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, interval)
		_ = c.ws.Ping(ctx)
		cancel()
	}
}

// message is a message that is being received.
type message struct {
	io.Reader
	binary bool
	cancel context.CancelFunc // closes the connection, unless the message has been received
}

// next waits for the beginning of the next message. The caller reads it to its end and then calls cancel.
func (c *conn) next() (*message, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	kind, r, err := c.ws.Reader(ctx)
	if err != nil {
		cancel()
		return nil, c.explain(err)
	}
	return &message{r, kind == websocket.MessageBinary, cancel}, nil
}

// receive returns the next n bytes of a message, or fewer at its end. They must arrive before the timeout.
func (c *conn) receive(m *message, n int64) ([]byte, error) {
	late := time.AfterFunc(c.timeout, m.cancel)
	text, err := io.ReadAll(io.LimitReader(m, n))
	if inTime := late.Stop(); err != nil && !inTime {
		return nil, fmt.Errorf("a message was not received completely within %v", c.timeout)
	}
	return text, c.explain(err)
}

// skip receives the rest of a message.
func (c *conn) skip(m *message) error {
	_, err := io.Copy(io.Discard, m)
	return c.explain(err)
}

// discard receives messages, and answers pings, until the connection ends.
func (c *conn) discard() {
	defer close(c.ended)
	for {
		m, err := c.next()
		if err == nil {
			err = c.skip(m)
			m.cancel()
		}
		if err != nil {
			c.err = err
			return
		}
	}
}

// lost reports whether discard has ended.
func (c *conn) lost() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// send sends a message.
func (c *conn) send(ctx context.Context, binary bool, text []byte) error {
	kind := websocket.MessageText
	if binary {
		kind = websocket.MessageBinary
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.ws.Write(ctx, kind, text)
}

// deliver sends messages, and a ping behind them. When it returns nil, the other side has answered the ping, so that it
// has read the messages. Somebody must call discard meanwhile.
func (c *conn) deliver(ctx context.Context, binary bool, messages [][]byte) error {
	for _, text := range messages {
		if err := c.send(ctx, binary, text); err != nil {
			return c.failure(ctx, fmt.Errorf("cannot send a message: %w", err))
		}
	}
	answered, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.ws.Ping(answered)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the other side did not answer a ping within %v: it has not read the messages", c.timeout)
	}
	return c.failure(ctx, err)
}

// failure returns why sending failed: discard may know better than err, which it confirms within closeTime.
func (c *conn) failure(ctx context.Context, err error) error {
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-late.C:
	case <-ctx.Done():
	}
	return err
}

// explain describes why the connection ended.
func (c *conn) explain(err error) error {
	var closed websocket.CloseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &closed):
		return closedError{closed}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the connection is dead: for %v nothing was received, not even the answer to a ping",
			c.under.idle)
	case c.ctx.Err() != nil, errors.Is(err, net.ErrClosed):
		return errors.New("the connection was closed")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was lost: the other side ended it without a close frame")
	}
	return fmt.Errorf("the connection was lost: %w", err)
}

// closedError reports that the other side has closed the connection.
type closedError struct{ websocket.CloseError }

func (e closedError) Error() string {
	if e.Code == websocket.StatusNoStatusRcvd {
		return "the other side closed the connection without a status"
	}
	text := fmt.Sprintf("the other side closed the connection with status %d", e.Code)
	if e.Reason != "" {
		text += fmt.Sprintf(" and the reason %q", e.Reason)
	}
	return text
}

// blames reports whether the status blames the content of a message.
func (e closedError) blames() bool {
	switch e.Code {
	case websocket.StatusUnsupportedData, websocket.StatusInvalidFramePayloadData, websocket.StatusMessageTooBig:
		return true
	}
	return false
}

// close closes the connection, and gives the other side closeTime to answer.
func (c *conn) close(status websocket.StatusCode, reason string) {
	c.under.closing.Store(true)
	late := time.AfterFunc(closeTime, func() { _ = c.under.Close() })
	defer late.Stop()
	_ = c.ws.Close(status, reason) // the other side may be gone
	c.drop()
}

// drop ends the connection without a close frame.
func (c *conn) drop() {
	_ = c.ws.CloseNow()
	c.cancel()
	c.pinging.Wait()
}

// watched is the connection below a WebSocket. A read that takes longer than idle fails.
type watched struct {
	net.Conn
	idle    time.Duration
	closing atomic.Bool // no message follows
	closed  atomic.Bool // the close frame was written
}

func watch(c net.Conn, s *endpointSettings) *watched {
	return &watched{Conn: c, idle: s.PingInterval + s.PingTimeout}
}

// Read implements net.Conn.
func (c *watched) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn. It writes only the first close frame. When the other side answers it, the library sends
// another one, which browsers report as an error. The library writes a close frame with one call.
func (c *watched) Write(p []byte) (int, error) {
	const final, opClose = 0x80, 0x8
	if c.closing.Load() && len(p) > 0 && p[0] == final|opClose && c.closed.Swap(true) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
