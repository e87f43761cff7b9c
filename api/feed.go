package api

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// What inspecting may cost. Everything is shared by all sessions of the server, so a
// thousand of them take from a pipeline no more than a few do: each sees less.
const (
	inspectAlone  = 2000     // messages per second to a session when there is no other
	inspectBudget = 1000     // messages per second to all sessions together
	inspectLeast  = 1        // records per second that a connector shows in any case
	inspectBurst  = 1000     // records that it shows at once
	inspectToken  = 4 << 10  // bytes of a record that cost as much as a record
	ringFrames    = 1024     // messages that a slow session may be behind
	ringBytes     = 8 << 20  // size of them
	handOver      = 1000     // batches on their way to be encoded; the budget bounds their size
	maxSessions   = 4 * 1024 // of the server
)

// lookInterval is the time between two looks at what clients sent.
const lookInterval = 200 * time.Millisecond

// hub has a feed for every connector that is inspected.
type hub struct {
	taps    Taps
	show    func(*record.Record) // nil: records are shown as they pass
	closing <-chan struct{}      // closed when all sessions are to end

	mu      sync.Mutex
	feeds   map[string]*feed // guarded by mu
	total   atomic.Int64     // sessions
	dropped atomic.Uint64
	open    sync.WaitGroup // sessions
}

// join has the session see what passes the connector from now on, once its feed serves
// it. It returns nil if there are too many sessions. leave is to be called in the end.
func (h *hub) join(id string, s *session) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total.Load() >= maxSessions {
		return nil
	}
	f := h.feeds[id]
	if f == nil {
		f = newFeed(h, id)
		f.stop = h.taps.Observe(id, f.observe)
		if h.feeds == nil {
			h.feeds = map[string]*feed{}
		}
		h.feeds[id] = f
		go f.run()
	}
	f.count++
	h.total.Add(1)
	h.open.Add(1)
	f.begin(s)
	return f
}

// leave ends a session of the feed.
func (h *hub) leave(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.open.Done()
	h.total.Add(-1)
	if f.count--; f.count == 0 {
		f.stop()
		close(f.done)
		delete(h.feeds, f.id)
	}
}

// perSession returns how many messages a session is sent per second.
func (h *hub) perSession() int64 {
	total := h.total.Load()
	if total <= 1 {
		return inspectAlone
	}
	return max(inspectLeast, inspectBudget/total)
}

func (h *hub) stats() (map[string]int, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sessions := make(map[string]int, len(h.feeds))
	for id, f := range h.feeds {
		sessions[id] = f.count
	}
	return sessions, h.dropped.Load()
}

// feed takes records of a connector, as many as its sessions can be shown, encodes each
// once, and keeps the latest for sessions that are behind. One goroutine serves all
// sessions: theirs would have stacks that the garbage collector scans each time.
type feed struct {
	hub    *hub
	id     string // of the connector
	count  int    // of sessions, guarded by hub.mu
	stop   func() // ends observing
	done   chan struct{}
	in     chan sample
	seen   atomic.Uint64 // records that passed
	budget budget

	mu    sync.Mutex
	newly []*session // guarded by mu: to be served since run looked
	next  uint64     // number of the frame to come, guarded by mu and changed by run

	// Owned by run.
	sessions []*session
	frames   [ringFrames]frame
	first    uint64 // number of the oldest frame kept
	size     int    // of the frames kept
	finished chan finished
	buffer   []byte // for what clients send
}

// finished says how it went to send the rest to a session that was behind.
type finished struct {
	session *session
	err     error
}

// sample is the beginning of a batch that passed; the first record has this number.
type sample struct {
	first uint64
	batch *record.Batch
}

// frame is an encoded record, and what filters look at.
type frame struct {
	message          // {"result":…}
	number    uint64 // of the record among those that passed
	operation record.Operation
	metadata  record.Metadata
}

func newFeed(h *hub, id string) *feed {
	return &feed{hub: h, id: id, done: make(chan struct{}), in: make(chan sample, handOver), finished: make(chan finished), buffer: make([]byte, 1024)}
}

// begin notes where the session begins to see.
func (f *feed) begin(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.at, s.expected = f.next, f.seen.Load()
}

// serve has run serve a session whose connection is taken over.
func (f *feed) serve(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.pinged = time.Now()
	f.newly = append(f.newly, s)
}

// observe is called by the pipeline. It takes a copy of as many records as the budget
// has room for, usually none when records are many.
func (f *feed) observe(b *record.Batch) {
	n := b.Len()
	first := f.seen.Add(uint64(n)) - uint64(n)
	if n == 0 || len(f.in) == cap(f.in) {
		return
	}
	n = f.budget.take(n, 1+b.Size()/n/inspectToken, f.hub.perSession())
	if n == 0 {
		return
	}
	select {
	case f.in <- sample{first, b.Slice(0, n).Clone()}:
	default:
	}
}

// run serves the sessions until the last one left.
func (f *feed) run() {
	look, end := time.NewTicker(lookInterval), f.hub.closing
	defer look.Stop()
	ending := false
	for {
		select {
		case s := <-f.in:
			f.take()
			f.publish(s)
		case done := <-f.finished:
			f.resume(done)
		case now := <-look.C:
			f.take()
			f.look(now)
		case <-end:
			end, ending = nil, true
			f.hurry()
		case <-f.done:
			return
		}
		if ending {
			f.take()
			f.sayGoodbye()
		}
		f.drop()
	}
}

// take takes in the sessions to be served.
func (f *feed) take() {
	f.mu.Lock()
	newly := f.newly
	f.newly = nil
	f.mu.Unlock()
	f.sessions = append(f.sessions, newly...)
	for _, s := range newly {
		f.show(s, time.Now())
	}
}

// publish encodes a sample and shows it.
func (f *feed) publish(s sample) {
	records, err := s.batch.Records()
	if err != nil {
		return // the pipeline finds the same and says so
	}
	for i := range records {
		if f.hub.show != nil {
			f.hub.show(&records[i])
		}
		text, err := record.AppendInspectJSON(newText(`{"result":`), &records[i])
		if err != nil {
			continue // a value that JSON has no word for
		}
		f.push(frame{newMessage(append(text, '}')), s.first + uint64(i), records[i].Operation, records[i].Metadata})
	}
	now := time.Now()
	for _, s := range f.sessions {
		f.show(s, now)
	}
}

// show sends a session what there is until it is behind.
func (f *feed) show(s *session, now time.Time) {
	for !s.behind && s.left == nil {
		if s.at = max(s.at, f.first); s.at == f.next {
			return
		}
		next := &f.frames[s.at%ringFrames]
		if next.number > s.expected {
			f.miss(s, next.number)
		}
		f.send(s, s.next(next, now))
	}
}

// miss notes that a session did not get to see the records before this one.
func (f *feed) miss(s *session, number uint64) {
	f.hub.dropped.Add(number - s.expected)
	s.missed += number - s.expected
	s.expected = number
}

// send sends b to a session. What it does not take at once is left to a goroutine.
func (f *feed) send(s *session, b []byte) {
	rest, err := s.send(b)
	if err != nil {
		s.left = err
	} else if s.behind = len(rest) > 0 || s.under.behind(); s.behind {
		_ = s.under.SetWriteDeadline(time.Now().Add(streamTimeout)) // it has one, or is closed
		go func() { f.finished <- finished{s, s.finish(rest)} }()
	}
}

// resume goes on with a session that is no longer behind.
func (f *feed) resume(done finished) {
	s := done.session
	s.behind, s.left = false, done.err
	_ = s.under.SetWriteDeadline(time.Time{})
	f.show(s, time.Now())
}

// look reads what clients sent, and asks for signs of life.
func (f *feed) look(now time.Time) {
	for _, s := range f.sessions {
		if s.behind {
			continue // reading might have TLS write
		}
		answer, err := s.receive(f.buffer)
		f.send(s, answer)
		if s.left = cmp.Or(s.left, err); s.left != nil || s.behind {
			continue
		}
		ping, err := s.ping(now)
		f.send(s, ping)
		s.left = cmp.Or(s.left, err)
	}
}

// hurry leaves sessions that are behind little time.
func (f *feed) hurry() {
	for _, s := range f.sessions {
		if s.behind {
			_ = s.under.SetWriteDeadline(time.Now().Add(closeTimeout))
		}
	}
}

// sayGoodbye ends the sessions that are not in the middle of a message.
func (f *feed) sayGoodbye() {
	for _, s := range f.sessions {
		if s.behind || s.left != nil {
			continue
		}
		if !s.lines {
			_, _ = s.conn.Read(f.buffer) // so that closing does not reset the connection
			f.send(s, closing(statusGoingAway, "the agent is shutting down"))
		}
		s.left = cmp.Or(s.left, errLeft)
	}
}

// drop forgets the sessions that ended.
func (f *feed) drop() {
	kept := f.sessions[:0]
	for _, s := range f.sessions {
		if s.left == nil || s.behind {
			kept = append(kept, s)
			continue
		}
		f.miss(s, max(s.expected, f.seen.Load()))
		s.conn.Close()
		f.hub.leave(f)
	}
	clear(f.sessions[len(kept):])
	f.sessions = kept
}

// push adds a frame and forgets the oldest beyond the limits. The newest stays, however
// large it is.
func (f *feed) push(fr frame) {
	for f.next > f.first && (f.next-f.first == ringFrames || f.size+len(fr.buffer) > ringBytes) {
		old := &f.frames[f.first%ringFrames]
		f.size -= len(old.buffer)
		*old = frame{}
		f.first++
	}
	f.frames[f.next%ringFrames] = fr
	f.size += len(fr.buffer)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
}

// budget limits how much is taken per second. The zero budget is full.
type budget struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// take returns how many of n records, which cost so much each, are within a budget of
// perSecond. What is taken may exceed it once, and is then made up for.
func (b *budget) take(n, cost int, perSecond int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, most := time.Now(), float64(min(perSecond, inspectBurst))
	if b.at.IsZero() {
		b.left = most
	} else {
		b.left = min(b.left+now.Sub(b.at).Seconds()*float64(perSecond), most)
	}
	b.at = now
	if b.left < 1 {
		return 0
	}
	n = min(n, max(1, int(b.left)/cost))
	b.left -= float64(n * cost)
	return n
}

// idle returns how long ago something was taken.
func (b *budget) idle() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.at)
}
