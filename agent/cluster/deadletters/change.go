package deadletters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
)

// verdict is the decision of a change about a dead letter.
type verdict int

const (
	leave verdict = iota
	changed
	remove
)

// anything matches every part.
func anything(part) bool { return true }

// withIDs returns a function that matches the parts that may have a dead letter with these ids.
func withIDs[V any](ids map[int64]V) func(part) bool {
	return func(p part) bool {
		for id := range ids {
			if p.First <= id && id <= p.Last {
				return true
			}
		}
		return false
	}
}

// change calls f for the dead letters in the parts of a queue that within matches, and saves its changes. It returns
// the dead letters that f changed or removed, also with an error. f is called again for a dead letter when another
// change was faster.
func (qs *queues) change(
	ctx context.Context, may func() bool, claim string, within func(part) bool, f func(*deadletter.DeadLetter) verdict,
) (all []*deadletter.DeadLetter, err error) {
	stamp := rand.Text()
	var h head
	var some []*deadletter.DeadLetter
	// A dead letter that is no longer in the tail is in a segment.
	err = qs.swap(ctx, may, protocol.DeadLettersKey(claim),
		func(e *protocol.Entry) (_ time.Duration, done bool, err error) {
			if h, err = headOf(claim, e); err != nil || h.Stamp == stamp || !within(h.Tail) || h.Tail.Count == 0 {
				return 0, true, err
			}
			var kept []*deadletter.DeadLetter
			if kept, some, err = apply(e.State, f); err != nil || len(some) == 0 {
				return 0, true, err
			}
			h.Stamp = stamp
			return 0, false, h.put(e, kept)
		})
	if err != nil {
		return nil, err
	}
	all = some
	for n := h.First; n < h.Next; n++ {
		if p, known := qs.seen(claim, n); known && (p.Count == 0 || !within(p)) {
			continue
		}
		some, err := qs.changeSegment(ctx, may, claim, n, stamp, within, f)
		if err != nil {
			return all, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (qs *queues) changeSegment(
	ctx context.Context, may func() bool, claim string, number int, stamp string, within func(part) bool,
	f func(*deadletter.DeadLetter) verdict,
) (some []*deadletter.DeadLetter, err error) {
	err = qs.swap(ctx, may, protocol.SegmentKey(claim, number),
		func(e *protocol.Entry) (ttl time.Duration, done bool, err error) {
			g, err := segmentOf(e)
			if err != nil || g.Stamp == stamp || !within(g.part) || g.Count == 0 {
				return 0, true, err
			}
			var kept []*deadletter.DeadLetter
			if kept, some, err = apply(e.State, f); err != nil || len(some) == 0 {
				return 0, true, err
			}
			if len(kept) == 0 {
				ttl = goneFor
			}
			return ttl, false, putSegment(e, claim, number, stamp, kept)
		})
	return some, err
}

// segmentOf decodes the segment in an entry. An entry without value gives an empty segment.
func segmentOf(e *protocol.Entry) (g segment, err error) {
	if e.Value == nil {
		return g, nil
	}
	if err := json.Unmarshal(e.Value, &g); err != nil || g.Format > format {
		return g, errNewer
	}
	return g, nil
}

// apply calls f for packed dead letters. It returns those that remain, and those that f changed or removed.
func apply(state []byte, f func(*deadletter.DeadLetter) verdict) (kept, touched []*deadletter.DeadLetter, err error) {
	all, err := unpack(state)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range all {
		switch f(l) {
		case leave:
			kept = append(kept, l)
		case changed:
			kept, touched = append(kept, l), append(touched, l)
		case remove:
			touched = append(touched, l)
		}
	}
	return kept, touched, nil
}

// order is the order of a walk.
type order bool

const (
	oldestFirst order = false
	newestFirst order = true
)

// walk calls f with the dead letters of each part of a queue that want matches, until f returns false. Within a part,
// they are in the order of their refusals.
func (qs *queues) walk(
	ctx context.Context, may func() bool, claim string, o order, want func(part) bool,
	f func([]*deadletter.DeadLetter) (bool, error),
) (h head, err error) {
	e, err := qs.readOn(ctx, may, protocol.DeadLettersKey(claim))
	if err == nil {
		h, err = headOf(claim, &e)
	}
	if err != nil {
		return h, err
	}
	qs.noted(e)
	visit := func(p part, e func() (protocol.Entry, error)) (bool, error) {
		if p.Count == 0 || !want(p) {
			return true, nil
		}
		there, err := e()
		if err != nil {
			return false, err
		}
		all, err := unpack(there.State)
		if err != nil || len(all) == 0 {
			return err == nil, err
		}
		return f(all)
	}
	tail := func() (bool, error) { return visit(h.Tail, func() (protocol.Entry, error) { return e, nil }) }
	more := true
	if o == newestFirst {
		more, err = tail()
	}
	for i := 0; i < h.Next-h.First && more && err == nil; i++ {
		n := h.First + i
		if o == newestFirst {
			n = h.Next - 1 - i
		}
		more, err = qs.visitSegment(ctx, may, claim, n, visit)
	}
	if o == oldestFirst && more && err == nil {
		_, err = tail()
	}
	return h, err
}

// visitSegment visits a segment, unless it is known to be empty or unwanted.
func (qs *queues) visitSegment(
	ctx context.Context, may func() bool, claim string, number int,
	visit func(part, func() (protocol.Entry, error)) (bool, error),
) (bool, error) {
	read := func() (protocol.Entry, error) {
		return qs.readOn(ctx, may, protocol.SegmentKey(claim, number))
	}
	if p, known := qs.seen(claim, number); known {
		return visit(p, read)
	}
	e, err := read()
	if err != nil {
		return false, err
	}
	g, err := segmentOf(&e)
	if err != nil {
		return false, err
	}
	qs.noted(e)
	return visit(g.part, func() (protocol.Entry, error) { return e, nil })
}

// nextID returns the id of the next dead letter of a queue.
func (qs *queues) nextID(ctx context.Context, claim string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	h, err := qs.walk(ctx, always, claim, newestFirst, func(part) bool { return false }, nil)
	return h.NextID, err
}

// forgetQueue empties a queue whose last owner had at most this epoch.
func (qs *queues) forgetQueue(
	ctx context.Context, claim string, epoch uint64, ttl time.Duration,
) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	h, err := qs.walk(ctx, always, claim, newestFirst, func(part) bool { return false }, nil)
	if err != nil || h.Stamp == "" || h.Epoch > epoch {
		return false, err
	}
	err = qs.swap(ctx, always, protocol.DeadLettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		if h, err = headOf(claim, e); err != nil || h.Stamp == "" || h.Epoch > epoch {
			return 0, true, err
		}
		if found = found || h.Tail.Count > 0 || h.Dropped > 0 || h.First < h.Next; h.Tail.Count == 0 &&
			h.First == h.Next && h.Dropped == 0 {
			return 0, true, nil
		}
		h.First, h.Dropped, h.Stamp = h.Next, 0, rand.Text()
		return ttl, false, h.put(e, nil)
	})
	if err != nil {
		return found, err
	}
	return found, qs.sweep(ctx, claim)
}

// sweep makes the segments expire that the head no longer counts.
func (qs *queues) sweep(ctx context.Context, claim string) error {
	qs.mu.Lock()
	q := qs.at(claim)
	var numbers []int
	for n, g := range q.segments {
		if n < q.head.First && g.Count > 0 {
			numbers = append(numbers, n)
		}
	}
	qs.mu.Unlock()
	for _, n := range numbers {
		_, err := qs.changeSegment(ctx, always, claim, n, rand.Text(), anything, func(*deadletter.DeadLetter) verdict {
			return remove
		})
		if err != nil {
			return err
		}
	}
	return nil
}
