package deadletters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
)

const (
	maxTrims = 100       // at once; the next dead letter, or the next minute, goes on
	noAgeFor = time.Hour // after its start an agent drops nothing for its age: its clock may be to be set
)

var errChanged = errors.New("the queue changed") // does not leave this package

// bounds keeps the dead letters of all queues within the limits of this agent.
type bounds struct {
	queues *queues
	local  *Local
	log    *slog.Logger
	begun  time.Time
}

// enforce drops what exceeds the limits, for all pipelines of the cluster together: the oldest of the queue that has most.
func (b *bounds) enforce(ctx context.Context) {
	for range maxTrims {
		claim, n := b.excess()
		if n == 0 {
			return
		}
		if err := b.trim(ctx, claim, n); err != nil && !errors.Is(err, errChanged) {
			b.log.Warn("there are more dead letters in the store of the cluster than there should be, trying again later", "component", "dead-letters", "err", err)
			return
		}
	}
}

// excess returns the queue of which the oldest n are to be dropped.
func (b *bounds) excess() (claim string, n int64) {
	b.queues.mu.Lock()
	defer b.queues.mu.Unlock()
	var count, bytes, mostCount, mostBytes int64
	var byCount, byBytes string
	for id, q := range b.queues.byClaim {
		n, size := q.total()
		count, bytes = count+n, bytes+size
		if n > mostCount {
			mostCount, byCount = n, id
		}
		if size > mostBytes {
			mostBytes, byBytes = size, id
		}
	}
	limits := b.local.Limits
	switch {
	case limits.Count > 0 && count > limits.Count:
		return byCount, min(count-limits.Count, mostCount)
	case limits.Bytes > 0 && bytes > limits.Bytes:
		n, size := b.queues.byClaim[byBytes].total()
		return byBytes, min(max(1, n*(bytes-limits.Bytes)/size), n)
	}
	return "", 0
}

// tidy drops what is too much or too old.
func (b *bounds) tidy(ctx context.Context) {
	b.enforce(ctx)
	b.sweepAll(ctx)
	if b.local.Limits.Age == 0 || time.Since(b.begun) < noAgeFor {
		return
	}
	before := b.local.Clock.Now().Add(-b.local.Limits.Age)
	b.queues.mu.Lock()
	var claims []string
	for id, q := range b.queues.byClaim {
		if from := q.since(); !from.IsZero() && from.Before(before) {
			claims = append(claims, id)
		}
	}
	b.queues.mu.Unlock()
	for _, id := range claims {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		old, err := b.queues.change(try, always, id, func(p part) bool { return p.From.Before(before) }, func(l *deadletter.Letter) verdict {
			if l.Time.Before(before) {
				return remove
			}
			return leave
		})
		err = errors.Join(err, b.count(try, id, len(old)))
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Warn("dead letters are kept in the store of the cluster for longer than they should be, trying again later", "component", "dead-letters", "err", err)
		}
	}
}

// sweepAll sweeps all queues: who was to sweep one may have died.
func (b *bounds) sweepAll(ctx context.Context) {
	b.queues.mu.Lock()
	claims := slices.Collect(maps.Keys(b.queues.byClaim))
	b.queues.mu.Unlock()
	for _, id := range claims {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		_ = b.queues.sweep(try, id) // it is tried again in a minute
		cancel()
	}
}

// count counts dead letters of a queue that were dropped.
func (b *bounds) count(ctx context.Context, claim string, n int) error {
	if n == 0 {
		return nil
	}
	stamp := rand.Text()
	return b.queues.swap(ctx, always, protocol.LettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		h, err := headOf(claim, e)
		if err != nil || h.Stamp == stamp {
			return 0, true, err
		}
		h.Stamp, h.Dropped = stamp, h.Dropped+uint64(n)
		e.Value, err = json.Marshal(&h)
		return 0, false, err
	})
}

// trim drops the n oldest dead letters of a queue, unless that changed since it was seen last. Segments as a whole go with the
// head, which counts what goes with it; what is to go of the next one goes from there, and is counted afterwards.
func (b *bounds) trim(ctx context.Context, claim string, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b.queues.mu.Lock()
	revision := b.queues.at(claim).revision
	b.queues.mu.Unlock()
	var next int
	left := n
	stamp := rand.Text()
	err := b.queues.swap(ctx, always, protocol.LettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		h, err := headOf(claim, e)
		if err != nil || h.Stamp == stamp { // by a try before
			return 0, true, err
		}
		if e.Revision != revision {
			return 0, false, b.changedSince(*e)
		}
		next, left = h.First, n
		for ; next < h.Next; next++ {
			p, known := b.queues.seen(claim, next)
			if !known || p.Count > left {
				break
			}
			left -= p.Count
		}
		tail, err := unpack(e.State)
		if err != nil {
			return 0, false, err
		}
		if next == h.Next {
			tail = tail[min(left, int64(len(tail))):]
			left = 0
		} else if next == h.First {
			return 0, true, nil
		}
		h.First, h.Stamp, h.Dropped = next, stamp, h.Dropped+uint64(n-left)
		return 0, false, h.put(e, tail)
	})
	if err == nil && left > 0 {
		err = b.trimSegment(ctx, claim, next, left)
	}
	if err != nil {
		return err
	}
	b.log.Warn("dead letters were dropped because there are too many", "component", "dead-letters", "pipeline_id", claim, "dropped", n)
	return b.queues.sweep(ctx, claim)
}

// trimSegment drops the n oldest dead letters of a segment, unless that changed since it was seen last. One that expired, which this
// member did not see empty, is made again without any, so that it is known.
func (b *bounds) trimSegment(ctx context.Context, claim string, number int, n int64) error {
	b.queues.mu.Lock()
	revision := b.queues.at(claim).segments[number].revision
	b.queues.mu.Unlock()
	stamp := rand.Text()
	var dropped int64
	err := b.queues.swap(ctx, always, protocol.SegmentKey(claim, number), func(e *protocol.Entry) (ttl time.Duration, done bool, err error) {
		g, err := segmentOf(e)
		if err != nil || g.Stamp == stamp { // by a try before
			return 0, true, err
		}
		if e.Revision != revision {
			return 0, false, b.changedSince(*e)
		}
		all, err := unpack(e.State)
		if err != nil {
			return 0, false, err
		}
		if dropped = min(n, int64(len(all))); dropped == int64(len(all)) {
			ttl = goneFor
		}
		return ttl, false, putSegment(e, claim, number, stamp, all[dropped:])
	})
	if err != nil {
		return err
	}
	return b.count(ctx, claim, int(dropped))
}

// changedSince takes what a part of a queue is by now.
func (b *bounds) changedSince(e protocol.Entry) error {
	b.queues.noted(e)
	return errChanged
}
