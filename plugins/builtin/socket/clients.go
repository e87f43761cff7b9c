package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// clients sends messages to all connected clients. A client that connects gets the messages that are not written yet,
// and then all later ones.
type clients struct {
	acceptor sockets.Acceptor
	log      *slog.Logger
	tls      *tls.Config   // nil: no TLS
	timeout  time.Duration // of handshakes, and of clients without progress
	require  bool          // messages wait for a client

	mu        sync.Mutex
	connected []*client // guarded by mu
	pending   []*group  // guarded by mu: messages that are not written yet, in order
	discarded int64     // guarded by mu: messages discarded since the last client left
	joined    notify.Broadcast
}

// group is a group of messages that are sent together.
type group struct {
	messages [][]byte
	written  bool // guarded by clients.mu: a client that has left has acknowledged them
}

// client is a connected client.
type client struct {
	*sockets.Connection
	remote string
	ends   map[*group]int64 // guarded by clients.mu once it is connected: see sockets.Connection.Send
}

func newClients(log *slog.Logger, s *destinationSettings, secure *tls.Config) *clients {
	return &clients{acceptor: sockets.Acceptor{Log: log, Limit: s.Connections}, log: log, tls: secure,
		timeout: s.Timeout, require: s.Require == "client"}
}

// accept sends messages to the clients that connect to l until close is called.
func (c *clients) accept(l net.Listener) { c.acceptor.Accept(l, c.serve) }

// serve sends messages to a client until the connection ends.
func (c *clients) serve(raw net.Conn) {
	remote := sockets.HostOf(raw.RemoteAddr())
	one, err := c.connect(raw)
	if err != nil {
		c.log.Warn("connection closed", "remote", remote, "err", err)
		return
	}
	defer one.Close()
	joined := &client{Connection: one, remote: remote, ends: map[*group]int64{}}
	if err := c.join(joined); err != nil {
		c.log.Warn("client disconnected", "remote", remote, "err", err)
		one.Abandon()
		return
	}
	<-one.Gone()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(joined, one.Ended())
}

func (c *clients) connect(raw net.Conn) (*sockets.Connection, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	var secure func(net.Conn) *tls.Conn
	if c.tls != nil {
		secure = func(conn net.Conn) *tls.Conn { return tls.Server(conn, c.tls) }
	}
	return sockets.Over(ctx, raw, secure, c.timeout, "client")
}

// join sends the pending messages to a client and adds it. Until then the client holds up nothing.
func (c *clients) join(one *client) error {
	for {
		missing := c.add(one)
		if len(missing) == 0 {
			return nil
		}
		for _, g := range missing {
			if err := one.send(context.Background(), g); err != nil {
				return err
			}
		}
	}
}

// add adds a client that has all pending messages. Otherwise it returns the missing ones.
func (c *clients) add(one *client) (missing []*group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.pending {
		if _, sent := one.ends[g]; !sent {
			missing = append(missing, g)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	maps.DeleteFunc(one.ends, func(g *group, _ int64) bool { return !slices.Contains(c.pending, g) })
	c.connected = append(c.connected, one)
	if c.discarded > 0 {
		c.log.Warn("a client has connected after records were discarded", "records", c.discarded)
		c.discarded = 0
	}
	c.joined.Notify()
	return nil
}

// send sends the messages to the client.
func (one *client) send(ctx context.Context, g *group) error {
	end, err := one.Send(ctx, g.messages)
	if err == nil {
		one.ends[g] = end
	}
	return err
}

// begin sends messages to all clients. The result waits until one client has acknowledged them, and every other one has
// acknowledged them or is disconnected.
func (c *clients) begin(ctx context.Context, messages [][]byte) sdk.WriteResult {
	g := &group{messages: messages}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, g)
	failed := make([]error, len(c.connected))
	each(c.connected, func(i int, one *client) {
		if failed[i] = one.Ended(); failed[i] == nil {
			failed[i] = one.send(ctx, g)
		}
	})
	for i, one := range slices.Clone(c.connected) {
		if failed[i] != nil {
			c.remove(one, failed[i])
		}
	}
	return func(ctx context.Context) (int, error) {
		defer c.forget(g)
		if err := c.finish(ctx, g); err != nil {
			return 0, err
		}
		return len(messages), nil
	}
}

// each calls do for all clients at the same time, so that several slow ones take no longer than one.
func each(all []*client, do func(i int, one *client)) {
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() { do(i, one) })
	}
	running.Wait()
}

// remove disconnects a client that has failed or left, unless it is removed already. The caller holds mu.
func (c *clients) remove(one *client, err error) {
	i := slices.Index(c.connected, one)
	if i < 0 {
		return
	}
	c.connected = slices.Delete(c.connected, i, i+1)
	level := slog.LevelWarn
	if one.Ended() != nil { // by the client
		level = slog.LevelInfo
		for g, end := range one.ends {
			g.written = g.written || one.Wait(context.Background(), end) == nil
		}
	}
	c.log.Log(context.Background(), level, "client disconnected", "remote", one.remote, "err", err)
	one.Abandon()
}

// forget removes g from the pending messages, whatever the outcome.
func (c *clients) forget(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = slices.DeleteFunc(c.pending, func(other *group) bool { return other == g })
	for _, one := range c.connected {
		delete(one.ends, g)
	}
}

var errNoClient = errors.New("no client is connected")

// finish waits until the clients have acknowledged g.
func (c *clients) finish(ctx context.Context, g *group) error {
	for warned := false; ; {
		all, ends, joined := c.receivers(g)
		failed := make([]error, len(all))
		each(all, func(i int, one *client) { failed[i] = one.Wait(ctx, ends[i]) })
		if ctx.Err() != nil {
			return sdk.Unavailable(ctx.Err())
		}
		if done := c.settle(g, all, failed); done {
			return nil
		}
		if !warned {
			c.log.Warn("records wait for a client to connect", "err", errNoClient)
			warned = true
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return sdk.Unavailable(ctx.Err())
		}
	}
}

// receivers returns the clients to which g was sent, the ends of g in their connections, and a channel that is closed
// when another client joins.
func (c *clients) receivers(g *group) (all []*client, ends []int64, joined <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.connected {
		if end, sent := one.ends[g]; sent {
			all, ends = append(all, one), append(ends, end)
		}
	}
	return all, ends, c.joined.Next()
}

// settle removes the clients that failed, and reports whether g is written.
func (c *clients) settle(g *group, all []*client, failed []error) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, one := range all {
		if done = done || failed[i] == nil; failed[i] != nil {
			c.remove(one, failed[i])
		}
	}
	if done = done || g.written; done || c.require {
		return done
	}
	if c.discarded == 0 {
		c.log.Warn("records are discarded until a client connects", "err", errNoClient)
	}
	c.discarded += int64(len(g.messages))
	return true
}

// close disconnects all clients. What their kernels have not acknowledged yet is still sent.
func (c *clients) close() error {
	c.mu.Lock()
	all := slices.Clone(c.connected)
	c.mu.Unlock()
	each(all, func(_ int, one *client) { one.Close() })
	return c.acceptor.Close()
}
