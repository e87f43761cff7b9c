package websocket

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// audience is a destination that sends to all connected clients.
type audience struct {
	settings *destinationSettings
	log      *slog.Logger
	server   *server
	closing  chan struct{} // closed when clients are to leave

	mu      sync.Mutex
	readers map[*conn]string // guarded by mu: clients with their addresses
	joined  notify.Signal
}

// newAudience starts listening.
func newAudience(ctx context.Context, settings *destinationSettings) (*audience, error) {
	a := &audience{settings: settings, log: sdk.Logger(ctx), closing: make(chan struct{}), readers: map[*conn]string{},
		joined: notify.NewSignal()}
	var err error
	a.server, err = settings.listen(ctx, a.serve)
	return a, err
}

// serve lets a client get the next messages, until it leaves or the destination ends.
func (a *audience) serve(c *conn, r *http.Request) {
	a.mu.Lock()
	a.readers[c] = r.RemoteAddr
	a.mu.Unlock()
	a.joined.Notify()
	go c.discard()
	select {
	case <-c.ended:
		a.leave(c)
		a.log.Info("a client has left", "remote", r.RemoteAddr, "err", c.err)
		c.drop()
	case <-a.closing:
		a.leave(c)
		c.close(statusLeaving, errStopped.Error())
	}
	<-c.ended
}

func (a *audience) leave(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.readers, c)
}

func (a *audience) present() map[*conn]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.readers)
}

// write implements target. Messages are written when every client that was connected has read them or was disconnected,
// and at least one has read them. Without a client they wait, or are dropped.
func (a *audience) write(ctx context.Context, messages [][]byte) (done int, err error) {
	for done < len(messages) {
		readers := a.present()
		n := portion(messages[done:], maxSent)
		switch {
		case len(readers) > 0:
			if !a.send(ctx, readers, messages[done:done+n]) {
				n = 0
			}
		case a.settings.NoReader == "wait":
			a.log.Warn("no client is connected: records wait for one")
			n = 0
			select {
			case <-a.joined:
			case <-ctx.Done():
			}
		}
		if done += n; ctx.Err() != nil {
			return done, ctx.Err()
		}
	}
	return done, nil
}

// send sends messages to clients at the same time, and disconnects those that do not read them in time. It reports
// whether at least one has read them.
func (a *audience) send(ctx context.Context, readers map[*conn]string, messages [][]byte) bool {
	var sending sync.WaitGroup
	var read atomic.Bool
	for c, remote := range readers {
		sending.Go(func() {
			if err := c.deliver(ctx, a.settings.binary(), messages); err != nil {
				a.leave(c)
				if ctx.Err() == nil {
					a.log.Warn("client disconnected: it did not read the messages", "remote", remote, "err", err)
				}
				c.close(statusRefused, "the messages were not read in time")
				return
			}
			read.Store(true)
		})
	}
	sending.Wait()
	return read.Load()
}

// close implements target.
func (a *audience) close(ctx context.Context) error {
	close(a.closing)
	return a.server.close(ctx)
}
