// Package inspect streams the records that pass connectors to any number of clients, over WebSocket or as lines. A
// thousand clients take no more from a pipeline than a few.
package inspect

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Taps gives the inspector access to records.
type Taps interface {
	// Observe calls f with every batch that passes the connector until stop is called. f returns at once, does not
	// change the batch and keeps no part of the batch. It may be called concurrently.
	Observe(connectorID string, f func(*record.Batch)) (stop func())
}

// Memory accounts for the memory of sessions.
type Memory interface {
	// Take counts n bytes and returns true. If that exceeds the limit, it counts none and returns false.
	Take(n int) bool
	// Add counts n bytes more regardless of the limit, or -n less.
	Add(n int)
}

// Limits of sessions.
const (
	ringFrames   = 1024     // messages by which a session may be behind
	ringBytes    = 8 << 20  // size of these messages
	handOver     = 1000     // batches waiting to be encoded; the token buckets limit their size
	manySessions = 4 * 1024 // of the server, whatever the limit of file descriptors
	fewFiles     = 1024     // that the process may open if the system does not say
	sessionBytes = 48 << 10 // memory of a session: stacks and connection buffers
	// A record that is being encoded takes its own size, the JSON size, and the size of the buffer that was too
	// small for the JSON.
	encodingCopies = 4
)

// pollInterval is the time between two looks at what no session was shown, and whether the connector is gone.
const pollInterval = 200 * time.Millisecond

// Limits are the time limits of clients and filters.
type Limits struct {
	Answer time.Duration // for a client to receive a message, or to answer a ping
	Ping   time.Duration // between pings
	Filter time.Duration // that filters may take at once
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{Answer: 10 * time.Second, Ping: 30 * time.Second, Filter: 20 * time.Millisecond}

// Hub has a feed for every inspected connector. The exported fields must be set, before first use, except for Show and
// Memory.
type Hub struct {
	Taps Taps
	// Show converts a record for display. It may be called concurrently. nil: records are shown unconverted.
	Show    func(*record.Record)
	Closing <-chan struct{}        // closed to end all sessions
	Changed func() <-chan struct{} // returns a channel that is closed when a connector may be gone
	Gone    func(id string) bool   // reports whether a connector is
	Limits  Limits                 // usually DefaultLimits
	Memory  Memory                 // limits the memory of sessions; records are dropped when it is exhausted

	mu      sync.Mutex
	feeds   map[string]*feed  // guarded by mu
	dropped map[string]uint64 // dropped records of ended feeds, by connector; guarded by mu
	total   atomic.Int64      // sessions
	open    sync.WaitGroup    // sessions
	filters timeBucket
}

// Serve shows the records that pass the connector from now on, over WebSocket or as lines of an endless response. The
// session outlives restarts of the pipeline, and a session over WebSocket continues after Serve has returned.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, connectorID string) error {
	wanted, err := selectionOf(r)
	if err != nil {
		return err
	}
	s := h.join(connectorID, wanted) // before the client learns that it sees records
	if s == nil {
		return rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "the limit of %d inspector sessions is reached",
			maxSessions(files()))
	}
	if !isUpgrade(r) {
		defer h.leave(s)
		c := stream(s.feed.ctx, w, r, h.Limits.Answer)
		defer context.AfterFunc(s.feed.ctx, c.expire)()
		s.run(c)
		return nil
	}
	c := accept(s.feed.ctx, w, r, h.Limits.Answer)
	if c == nil {
		h.leave(s)
		return nil
	}
	go func() { // the stack and the buffers of the request are released
		defer h.leave(s)
		defer func() { _ = c.conn.CloseNow() }() // usually it is closed already
		s.run(c)
	}()
	return nil
}

// Wait returns when all sessions have ended.
func (h *Hub) Wait() { h.open.Wait() }

// maxSessions returns the maximum number of sessions. Each holds a connection, and together they leave three quarters
// of the file descriptors to the rest of the agent.
func maxSessions(files uint64) int64 { return int64(min(manySessions, files/4)) }

// files returns the maximum number of file descriptors of the process.
func files() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fewFiles
	}
	return uint64(limit.Cur)
}

// join begins a session that sees the records that pass the connector from now on. It returns nil if there are too many
// sessions. The caller must call leave in the end.
func (h *Hub) join(id string, wanted selection) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total.Load() >= maxSessions(files()) {
		return nil
	}
	f := h.feeds[id]
	if f == nil {
		f = newFeed(h, id)
		f.stop = h.Taps.Observe(id, f.observe)
		if h.feeds == nil {
			h.feeds = map[string]*feed{}
		}
		h.feeds[id] = f
		go f.run()
	}
	f.count++
	h.total.Add(1)
	h.hold(sessionBytes)
	h.open.Add(1)
	return f.begin(wanted)
}

// leave ends a session.
func (h *Hub) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.open.Done()
	h.total.Add(-1)
	h.hold(-sessionBytes)
	f := s.feed
	f.end(s)
	if f.count--; f.count == 0 {
		f.stop()
		close(f.done)
		delete(h.feeds, f.id)
		if h.dropped == nil {
			h.dropped = map[string]uint64{}
		}
		h.dropped[f.id] += f.dropped.Load()
		h.forget()
	}
}

// forget drops the counts of deleted connectors. The caller holds mu.
func (h *Hub) forget() {
	maps.DeleteFunc(h.dropped, func(id string, _ uint64) bool { return h.feeds[id] == nil && h.Gone(id) })
}

// take counts n bytes if there is memory for them.
func (h *Hub) take(n int) bool { return h.Memory == nil || h.Memory.Take(n) }

// hold counts n bytes more, or less.
func (h *Hub) hold(n int) {
	if h.Memory != nil {
		h.Memory.Add(n)
	}
}

// Stats returns the number of sessions and the number of dropped records by connector. It forgets deleted connectors.
func (h *Hub) Stats() (sessions map[string]int, dropped map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sessions, dropped = make(map[string]int, len(h.feeds)), make(map[string]uint64, len(h.feeds))
	h.forget()
	maps.Copy(dropped, h.dropped)
	for id, f := range h.feeds {
		sessions[id] = f.count
		dropped[id] += f.dropped.Load()
	}
	return sessions, dropped
}
