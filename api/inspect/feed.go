package inspect

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// feed takes records of a connector, as many as its sessions can be shown. It encodes each record once for all sessions
// with the same filter, and keeps the latest frames for slow sessions. One goroutine serves all sessions: with a
// goroutine for each, the garbage collector would scan all their stacks each time.
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

	mu    sync.Mutex
	newly []*session // guarded by mu: sessions to serve from the next admit on

	// Owned by run.
	sessions []*session
	showing  []*group // groups that have frames
	finished chan finished
	buffer   []byte // for messages from clients
}

// group holds the sessions of a feed that have the same filter, and their frames.
type group struct {
	filter  filter
	count   int           // of sessions, guarded by hub.mu
	matched atomic.Uint64 // records that met the filter
	offers  atomic.Int32  // offers counted in matched for which run has not yet decided whether to sample them
	bucket  recordBucket

	next   uint64   // number of the frame to come, guarded by feed.mu and changed by run
	first  uint64   // number of the oldest frame kept, owned by run
	frames []*frame // owned by run
	size   int      // of the frames, owned by run
}

// finished is the result of sending the rest to a session that was behind.
type finished struct {
	session *session
	err     error
}

// sample has the first records that a group wants to see in a passing batch; they are numbered from first.
type sample struct {
	group  *group
	first  uint64
	batch  *record.Batch
	memory int // reserved for it
}

func newFeed(h *Hub, id string) *feed {
	f := &feed{hub: h, id: id, done: make(chan struct{}), in: make(chan sample, handOver), finished: make(chan finished), buffer: make([]byte, 1024)}
	f.groups.Store(&[]*group{})
	return f
}

// begin adds the session to a group, and records where the session starts to see records. The caller holds hub.mu.
func (f *feed) begin(s *session) {
	all := *f.groups.Load()
	i := slices.IndexFunc(all, func(g *group) bool { return g.filter.key == s.wanted.filter.key })
	if i < 0 {
		i, all = len(all), append(slices.Clone(all), &group{filter: s.wanted.filter})
		f.groups.Store(&all)
	}
	s.group = all[i]
	s.group.count++
	f.mu.Lock()
	defer f.mu.Unlock()
	s.at, s.expected = s.group.next, f.seen(s.group)
	s.shown = time.Now().Add(-s.wanted.interval)
	s.counted = s.shown
}

// end removes the session from its group. The caller holds hub.mu.
func (f *feed) end(s *session) {
	if s.group.count--; s.group.count == 0 {
		left := slices.DeleteFunc(slices.Clone(*f.groups.Load()), func(g *group) bool { return g == s.group })
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

// serve makes run serve a session whose connection is taken over.
func (f *feed) serve(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.pinged = time.Now()
	f.newly = append(f.newly, s)
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

// run serves the sessions until the last one left.
func (f *feed) run() {
	poll, end, changed := time.NewTicker(pollInterval), f.hub.Closing, f.hub.Changed()
	defer poll.Stop()
	defer f.forget()
	var ending *closeError
	for {
		select {
		case s := <-f.in:
			f.admit()
			f.publish(s)
		case done := <-f.finished:
			f.resume(done)
		case now := <-poll.C:
			f.admit()
			f.poll(now)
			select {
			case <-changed:
				if changed = f.hub.Changed(); f.hub.Gone(f.id) {
					ending = &closeError{statusNormal, "the connector was deleted"}
				}
			default:
			}
		case <-end:
			end, ending = nil, &closeError{statusGoingAway, "the agent is shutting down"}
			f.shortenDeadlines()
		case <-f.done:
			return
		}
		if ending != nil {
			f.admit()
			f.closeSessions(ending)
		}
		f.drop()
	}
}

// admit adds the new sessions.
func (f *feed) admit() {
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
	defer f.hub.hold(-s.memory)
	records, err := s.batch.Records()
	if err != nil {
		return // the pipeline meets the same error and reports it
	}
	for i := range records {
		if f.hub.Show != nil {
			f.hub.Show(&records[i])
		}
		text, err := record.AppendInspectJSON(newText(`{"result":`), &records[i])
		if err != nil {
			continue // a value that JSON cannot represent
		}
		f.push(s.group, &frame{message: newMessage(append(text, '}')), number: s.first + uint64(i)})
	}
	now := time.Now()
	for _, other := range f.sessions {
		if other.group == s.group {
			f.show(other, now)
		}
	}
	f.trim(s.group)
}

// show sends the available frames to a session until the session is behind.
func (f *feed) show(s *session, now time.Time) {
	g := s.group
	for !s.behind && s.left == nil {
		if s.at = max(s.at, g.first); s.at == g.next {
			return
		}
		next := g.frames[s.at-g.first]
		if next.number > s.expected {
			f.miss(s, next.number, now)
		}
		if f.send(s, s.next(next, now)); s.behind {
			s.frame = next
			next.users++
		}
	}
}

// miss counts the records before number as dropped for the session. Records that the session skips because of its
// interval are not counted.
func (f *feed) miss(s *session, number uint64, now time.Time) {
	missed := number - s.expected
	if interval := s.wanted.interval; interval > 0 {
		missed = min(missed, uint64(max(0, now.Sub(s.counted)/interval-1)))
		s.counted = s.counted.Add(time.Duration(missed) * interval)
	}
	f.dropped.Add(missed)
	s.missed += missed
	s.expected = number
}

// send sends b to a session. A goroutine sends the part that the client does not take at once.
func (f *feed) send(s *session, b []byte) {
	rest, err := s.send(b)
	if err != nil {
		s.left = err
	} else if s.behind = len(rest) > 0 || s.under.behind(); s.behind {
		_ = s.under.SetWriteDeadline(time.Now().Add(f.hub.Limits.Answer)) // it has a deadline, or is closed
		go func() { f.finished <- finished{s, s.finish(rest)} }()
	}
}

// resume continues a session that is no longer behind.
func (f *feed) resume(done finished) {
	s := done.session
	s.behind, s.left = false, done.err
	f.release(s.frame)
	s.frame = nil
	_ = s.under.SetWriteDeadline(time.Time{})
	f.show(s, time.Now())
	f.trim(s.group)
}

// poll reads messages from clients, and sends pings.
func (f *feed) poll(now time.Time) {
	for _, s := range f.sessions {
		if s.behind {
			continue // a read might make TLS write
		}
		answer, err := s.receive(f.buffer)
		f.send(s, answer)
		if s.left = cmp.Or(s.left, err); s.left != nil || s.behind {
			continue
		}
		ping, err := s.ping(now, &f.hub.Limits)
		f.send(s, ping)
		if s.left = cmp.Or(s.left, err); s.left == nil && !s.behind {
			f.reportMissed(s, now)
		}
	}
	f.clean()
}

// reportMissed reports dropped records to a session if no frame has followed them since the last poll. Records that are
// still being offered may yet be seen: the count of seen is in f.in once no offers are pending.
func (f *feed) reportMissed(s *session, now time.Time) {
	seen := f.seen(s.group)
	if seen == s.polled && seen > s.expected && s.at == s.group.next && s.group.offers.Load() == 0 && len(f.in) == 0 {
		f.miss(s, seen, now)
	}
	s.polled = seen
	f.send(s, s.report(now))
}

// shortenDeadlines shortens the deadlines of sessions that are behind.
func (f *feed) shortenDeadlines() {
	for _, s := range f.sessions {
		if s.behind {
			_ = s.under.SetWriteDeadline(time.Now().Add(closeTimeout))
		}
	}
}

// closeSessions ends the sessions that are not in the middle of a message.
func (f *feed) closeSessions(why *closeError) {
	for _, s := range f.sessions {
		if s.behind || s.left != nil {
			continue
		}
		if !s.lines {
			_, _ = s.conn.Read(f.buffer) // so that closing does not reset the connection
			f.send(s, closing(why.status, why.reason))
		}
		s.left = cmp.Or(s.left, errLeft)
	}
}

// drop removes the ended sessions.
func (f *feed) drop() {
	kept := f.sessions[:0]
	for _, s := range f.sessions {
		if s.left == nil || s.behind {
			kept = append(kept, s)
			continue
		}
		f.miss(s, max(s.expected, f.seen(s.group)), time.Now())
		s.conn.Close()
		f.hub.leave(f, s)
	}
	clear(f.sessions[len(kept):])
	f.sessions = kept
}
