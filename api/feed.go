package api

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// What inspecting may cost. Everything is shared by all sessions of the server, so a
// thousand of them take from a pipeline no more than a few do: each sees less.
const (
	inspectBudget = 2000     // messages per second to all sessions together
	inspectLeast  = 1        // records per second that a connector shows in any case
	inspectBurst  = 1000     // records that it shows at once
	inspectToken  = 4 << 10  // bytes of a record that cost as much as a record
	ringFrames    = 1024     // messages that a slow session may be behind
	ringBytes     = 8 << 20  // size of them
	handOver      = 1000     // batches on their way to be encoded; the budget bounds their size
	maxSessions   = 4 * 1024 // of the server
)

// hub has a feed for every connector that is inspected.
type hub struct {
	taps Taps
	show func(*record.Record) // nil: records are shown as they pass

	mu      sync.Mutex
	feeds   map[string]*feed // guarded by mu
	total   atomic.Int64     // sessions
	dropped atomic.Uint64
}

// join returns the feed of the connector, nil if there are too many sessions. leave is
// to be called when the session ends.
func (h *hub) join(id string) (f *feed, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total.Load() >= maxSessions {
		return nil, nil
	}
	if f = h.feeds[id]; f == nil {
		f = newFeed(&h.total, h.show)
		f.stop = h.taps.Observe(id, f.observe)
		if h.feeds == nil {
			h.feeds = map[string]*feed{}
		}
		h.feeds[id] = f
		go f.encode()
	}
	f.sessions++
	h.total.Add(1)
	return f, func() { h.leave(id, f) }
}

func (h *hub) leave(id string, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total.Add(-1)
	if f.sessions--; f.sessions > 0 {
		return
	}
	f.stop()
	close(f.done)
	delete(h.feeds, id)
}

func (h *hub) stats() (map[string]int, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sessions := make(map[string]int, len(h.feeds))
	for id, f := range h.feeds {
		sessions[id] = f.sessions
	}
	return sessions, h.dropped.Load()
}

// feed takes records of a connector, as many as the sessions can be shown, encodes each
// once, and keeps the latest for the sessions to read at their own pace.
type feed struct {
	sessions int    // guarded by hub.mu
	stop     func() // ends observing
	done     chan struct{}
	in       chan sample
	total    *atomic.Int64 // sessions of the server
	show     func(*record.Record)

	seen   atomic.Uint64 // records that passed
	budget budget

	mu     sync.Mutex
	frames [ringFrames]frame // guarded by mu, as is what follows
	first  uint64            // number of the oldest frame kept
	next   uint64            // number of the frame to come
	size   int               // of the frames kept
	more   chan struct{}     // closed when there is another frame
}

// sample is the beginning of a batch that passed; the first record has this number.
type sample struct {
	first uint64
	batch *record.Batch
}

// frame is an encoded record, and what filters look at.
type frame struct {
	number    uint64 // of the record among those that passed
	data      []byte // {"result":…}
	operation record.Operation
	metadata  record.Metadata
}

func newFeed(total *atomic.Int64, show func(*record.Record)) *feed {
	return &feed{show: show, done: make(chan struct{}), in: make(chan sample, handOver), more: make(chan struct{}), total: total}
}

// observe is called by the pipeline. It takes a copy of as many records as the budget
// has room for, usually none when records are many.
func (f *feed) observe(b *record.Batch) {
	n := b.Len()
	first := f.seen.Add(uint64(n)) - uint64(n)
	if n == 0 || len(f.in) == cap(f.in) {
		return
	}
	n = f.budget.take(n, 1+b.Size()/n/inspectToken, max(inspectLeast, inspectBudget/max(f.total.Load(), 1)))
	if n == 0 {
		return
	}
	select {
	case f.in <- sample{first, b.Slice(0, n).Clone()}:
	default:
	}
}

// encode turns samples into frames until the last session left.
func (f *feed) encode() {
	for {
		select {
		case <-f.done:
			return
		case s := <-f.in:
			f.publish(s)
		}
	}
}

func (f *feed) publish(s sample) {
	records, err := s.batch.Records()
	if err != nil {
		return // the pipeline finds the same and says so
	}
	frames := make([]frame, 0, len(records))
	for i := range records {
		if f.show != nil {
			f.show(&records[i])
		}
		data, err := record.AppendInspectJSON([]byte(`{"result":`), &records[i])
		if err != nil {
			continue // a value that JSON has no word for
		}
		frames = append(frames, frame{s.first + uint64(i), append(data, '}'), records[i].Operation, records[i].Metadata})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fr := range frames {
		f.push(fr)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// push adds a frame and forgets the oldest beyond the limits. The newest stays, however
// large it is.
func (f *feed) push(fr frame) {
	for f.next > f.first && (f.next-f.first == ringFrames || f.size+len(fr.data) > ringBytes) {
		old := &f.frames[f.first%ringFrames]
		f.size -= len(old.data)
		*old = frame{}
		f.first++
	}
	f.frames[f.next%ringFrames] = fr
	f.size += len(fr.data)
	f.next++
}

// reader is one session's place in a feed.
type reader struct {
	feed     *feed
	at       uint64 // number of the frame to read next
	expected uint64 // number of the record that follows the last one read
}

// reader returns a reader of what is yet to come.
func (f *feed) reader() *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &reader{feed: f, at: f.next, expected: f.seen.Load()}
}

// read returns the next frame and how many records passed unseen before it. When there
// is no frame yet it returns a channel that is closed when there is.
func (r *reader) read() (fr frame, missed uint64, wait <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	r.at = max(r.at, f.first)
	if r.at == f.next {
		return frame{}, 0, f.more
	}
	fr = f.frames[r.at%ringFrames]
	r.at++
	if fr.number > r.expected {
		missed = fr.number - r.expected
	}
	r.expected = max(r.expected, fr.number+1)
	return fr, missed, nil
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
