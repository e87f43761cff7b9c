package inspect

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/plugins/record"
)

// feed takes records of a connector, as many as its sessions can be shown. It encodes each record once for all sessions
// with the same filter, and keeps the latest frames for slow sessions, so that no session delays the pipeline or
// another session.
type feed struct {
	hub     *Hub
	id      string // of the connector
	count   int    // of sessions, guarded by hub.mu
	stop    func() // stops observing
	done    chan struct{}
	in      chan sample
	groups  atomic.Pointer[[]*group] // replaced, never modified; guarded by hub.mu for changes
	skipped atomic.Uint64            // records that filters had no time to inspect
	dropped atomic.Uint64

	ending chan struct{}      // closed when the sessions are to end
	why    closeReason        // set before ending is closed
	ctx    context.Context    // ends when the sessions have had the time to end
	cancel context.CancelFunc // of ctx

	mu sync.Mutex // guards the frames of the groups and the progress of the sessions
}

// group holds the sessions of a feed that have the same filter, and their frames.
type group struct {
	filter  filter
	matched atomic.Uint64 // records that met the filter
	offers  atomic.Int32  // offers counted in matched for which run has not yet decided whether to sample them
	bucket  recordBucket
	polled  uint64 // records that had passed at the last poll, owned by run

	// Guarded by feed.mu.
	sessions []*session
	next     uint64 // number of the frame to come
	first    uint64 // number of the oldest frame kept
	frames   []*frame
	size     int           // of the frames
	settled  uint64        // all records up to this number are among the frames, or are never shown
	changed  chan struct{} // closed, and replaced, when next or settled changes
}

// frame is an encoded record.
type frame struct {
	text   []byte // {"result":…}
	number uint64 // of the record, counted within the group
	users  int    // the group, while it keeps the frame, and each session that sends it; guarded by feed.mu
}

// sample has the first records that a group wants to see in a passing batch; they are numbered from first.
type sample struct {
	group  *group
	first  uint64
	batch  *record.Batch
	memory int // reserved for it
}

func newFeed(h *Hub, id string) *feed {
	f := &feed{hub: h, id: id, done: make(chan struct{}), in: make(chan sample, handOver), ending: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.groups.Store(&[]*group{})
	return f
}

// begin adds a session to the group with its filter, and records where the session starts to see records. The caller
// holds hub.mu.
func (f *feed) begin(wanted selection) *session {
	all := *f.groups.Load()
	i := slices.IndexFunc(all, func(g *group) bool { return g.filter.key == wanted.filter.key })
	if i < 0 {
		i, all = len(all), append(slices.Clone(all), &group{filter: wanted.filter, changed: make(chan struct{})})
		f.groups.Store(&all)
	}
	g := all[i]
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &session{feed: f, group: g, interval: wanted.interval, at: g.next, expected: f.seen(g)}
	s.shown = time.Now().Add(-s.interval)
	s.counted = s.shown
	g.sessions = append(g.sessions, s)
	return s
}

// end removes the session from its group. Records that it was not shown count as dropped. The caller holds hub.mu.
func (f *feed) end(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := s.group
	f.miss(s, max(s.expected, f.seen(g)), time.Now())
	f.release(s.frame)
	g.sessions = slices.DeleteFunc(g.sessions, func(other *session) bool { return other == s })
	f.trim(g)
	if len(g.sessions) == 0 {
		left := slices.DeleteFunc(slices.Clone(*f.groups.Load()), func(other *group) bool { return other == g })
		f.groups.Store(&left)
	}
}

// seen returns the number of records that the group may want to see. Records that no filter has inspected are included,
// as they may match.
func (f *feed) seen(g *group) uint64 {
	if g.filter.conditions == nil {
		return g.matched.Load()
	}
	return g.matched.Load() + f.skipped.Load()
}

// observe is called by the pipeline. It copies as many records as the token buckets have space for, usually none when
// the stream is fast. Filters run first, as matches may be rare. They inspect the records in place, because copying all
// records would cost more.
func (f *feed) observe(b *record.Batch) {
	n := b.Len()
	if n == 0 {
		return
	}
	filtered := 0
	groups := *f.groups.Load()
	for _, g := range groups {
		if g.filter.conditions != nil {
			filtered++
			continue
		}
		f.offer(g, n, n, b.Size(), func(n int) (*record.Batch, error) { return b.Slice(0, n), nil })
	}
	if filtered > 0 && !f.hub.filters.use(f.hub.Limits.Filter, func() { f.sift(groups, b) }) {
		f.skipped.Add(uint64(n))
	}
}

// sift offers the matches of each filter to the groups that have one.
func (f *feed) sift(groups []*group, b *record.Batch) {
	n, most := b.Len(), int(f.hub.perSession())
	var found []int
	for _, g := range groups {
		if g.filter.conditions == nil {
			continue
		}
		matched := 0
		found = found[:0]
		for i := range n {
			if !g.filter.matches(b, i) {
				continue
			}
			if matched++; matched <= most {
				found = append(found, i)
			}
		}
		if matched > 0 {
			f.offer(g, matched, n, b.Size(), func(n int) (*record.Batch, error) { return pick(b, found[:n]) })
		}
	}
}

// pick returns the records of b with these indices.
func pick(b *record.Batch, places []int) (*record.Batch, error) {
	picked := make([]*record.Batch, len(places))
	for i, at := range places {
		picked[i] = b.Slice(at, at+1)
	}
	return record.Join(picked)
}

// offer samples the first matching records, from a batch of n with this size: as many as the bucket of their group has
// tokens for.
func (f *feed) offer(g *group, matched, n, size int, take func(n int) (*record.Batch, error)) {
	g.offers.Add(1)
	defer g.offers.Add(-1)
	first := f.seen(g)
	g.matched.Add(uint64(matched))
	if len(f.in) == cap(f.in) {
		return
	}
	taken := g.bucket.take(matched, 1+size/n/bytesPerToken, f.hub.perSession())
	if taken == 0 {
		return
	}
	b, err := take(taken)
	if err != nil {
		return // the pipeline meets the same error and reports it
	}
	memory := encodingCopies * b.Size()
	if !f.hub.take(memory) {
		return
	}
	select {
	case f.in <- sample{g, first, b.Clone(), memory}:
	default:
		f.hub.hold(-memory)
	}
	select {
	case <-f.done: // run may have ended already
		f.drain()
	default:
	}
}

// drain discards the samples that are not shown any more.
func (f *feed) drain() {
	for {
		select {
		case s := <-f.in:
			f.hub.hold(-s.memory)
		default:
			return
		}
	}
}

// run encodes samples until the last session has left.
func (f *feed) run() {
	poll, closing, changed := time.NewTicker(pollInterval), f.hub.Closing, f.hub.Changed()
	defer poll.Stop()
	defer f.cancel()
	defer f.drain()
	for {
		select {
		case s := <-f.in:
			f.publish(s)
		case <-poll.C:
			f.settle()
			select {
			case <-changed:
				if changed = f.hub.Changed(); f.hub.Gone(f.id) {
					f.close(closeReason{websocket.StatusNormalClosure, "the connector was deleted"})
				}
			default:
			}
		case <-closing:
			closing = nil
			f.close(closeReason{websocket.StatusGoingAway, "the agent is shutting down"})
		case <-f.done:
			return
		}
	}
}

// close ends all sessions.
func (f *feed) close(why closeReason) {
	select {
	case <-f.ending: // already
	default:
		f.why = why
		close(f.ending)
		time.AfterFunc(closeTimeout, f.cancel)
	}
}

// publish encodes a sample for the sessions of its group.
func (f *feed) publish(s sample) {
	defer f.hub.hold(-s.memory)
	records, err := s.batch.Records()
	if err != nil {
		return // the pipeline meets the same error and reports it
	}
	for i := range records {
		if f.hub.Show != nil {
			f.hub.Show(&records[i])
		}
		text, err := record.AppendInspectJSON([]byte(`{"result":`), &records[i])
		if err != nil {
			continue // a value that JSON cannot represent
		}
		f.push(s.group, &frame{text: append(text, '}'), number: s.first + uint64(i)})
	}
}

// settle lets the sessions count the records as dropped that no frame has followed since the last poll. Records that
// are still being offered may yet be seen: the count of seen is in f.in once no offers are pending.
func (f *feed) settle() {
	for _, g := range *f.groups.Load() {
		seen := f.seen(g)
		quiet := seen == g.polled && g.offers.Load() == 0 && len(f.in) == 0
		g.polled = seen
		f.mu.Lock()
		if quiet && seen > g.settled {
			g.settled = seen
			g.wake()
		}
		f.mu.Unlock()
	}
}

// wake wakes the sessions. The caller holds feed.mu.
func (g *group) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// push adds a frame and drops the oldest beyond the limits, which groups share. The newest frame stays, whatever its
// size, unless there is no memory for it.
func (f *feed) push(g *group, fr *frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(g.sessions) == 0 || !f.hub.take(cap(fr.text)) {
		return
	}
	groups := max(1, len(*f.groups.Load()))
	frames, bytes := max(1, ringFrames/groups), ringBytes/groups
	for len(g.frames) > 0 && (len(g.frames) >= frames || g.size+len(fr.text) > bytes) {
		f.pop(g)
	}
	fr.users = 1
	g.frames = append(g.frames, fr)
	g.size += len(fr.text)
	g.next++
	g.wake()
}

// trim drops the frames that all sessions of the group have passed. The caller holds mu.
func (f *feed) trim(g *group) {
	for len(g.frames) > 0 && !slices.ContainsFunc(g.sessions, func(s *session) bool { return s.at <= g.first }) {
		f.pop(g)
	}
}

// pop drops the oldest frame. The caller holds mu.
func (f *feed) pop(g *group) {
	g.size -= len(g.frames[0].text)
	f.release(g.frames[0])
	g.frames[0] = nil
	g.frames = g.frames[1:]
	g.first++
}

// release ends one use of a frame. fr may be nil. The caller holds mu.
func (f *feed) release(fr *frame) {
	if fr == nil {
		return
	}
	if fr.users--; fr.users == 0 {
		f.hub.hold(-cap(fr.text))
	}
}

// miss counts the records before number as dropped for the session. Records that the session skips because of its
// interval are not counted. The caller holds mu.
func (f *feed) miss(s *session, number uint64, now time.Time) {
	missed := number - s.expected
	if s.interval > 0 {
		missed = min(missed, uint64(max(0, now.Sub(s.counted)/s.interval-1)))
		s.counted = s.counted.Add(time.Duration(missed) * s.interval)
	}
	f.dropped.Add(missed)
	s.missed += missed
	s.expected = number
}
