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
	maxTrims = 100       // per run; the next dead letter, or the next minute, continues
	noAgeFor = time.Hour // time after its start in which an agent drops nothing by age: its clock may not be set yet
)

var errChanged = errors.New("the queue changed") // does not leave this package

// bounds keeps the dead letters of all queues within the limits of this agent.
type bounds struct {
	queues *queues
	local  *deadletter.Store
	log    *slog.Logger
	begun  time.Time
}

// enforce drops the excess over the limits for all pipelines of the cluster together: the oldest dead letters of the
// largest queue.
func (b *bounds) enforce(ctx context.Context) {
	for range maxTrims {
		claim, n := b.excess()
		if n == 0 {
			return
		}
		if err := b.trim(ctx, claim, n); err != nil && !errors.Is(err, errChanged) {
			b.log.Warn("cannot enforce the limits of dead letters in the store of the cluster, trying "+
				"again later", "component", "dead-letters", "err", err)
			return
		}
	}
}

// excess returns the largest queue, and the number n of oldest dead letters to drop from it. n is 0 within the limits.
func (b *bounds) excess() (claim string, n int64) {
	b.queues.mu.Lock()
	defer b.queues.mu.Unlock()
	var count, bytes, maxCount, maxBytes int64
	var byCount, byBytes string
	for id, q := range b.queues.byClaim {
		n, size := q.total()
		count, bytes = count+n, bytes+size
		if n > maxCount {
			maxCount, byCount = n, id
		}
		if size > maxBytes {
			maxBytes, byBytes = size, id
		}
	}
	limits := b.local.Limits
	switch {
	case limits.Count > 0 && count > limits.Count:
		return byCount, min(count-limits.Count, maxCount)
	case limits.Bytes > 0 && bytes > limits.Bytes:
		n, size := b.queues.byClaim[byBytes].total()
		return byBytes, min(max(1, n*(bytes-limits.Bytes)/size), n)
	}
	return "", 0
}

// tidy drops the dead letters that exceed the limits or the age.
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
		old, err := b.queues.change(try, always, id, func(p part) bool {
			return p.From.Before(before)
		}, func(l *deadletter.DeadLetter) verdict {
			if l.Time.Before(before) {
				return remove
			}
			return leave
		})
		err = errors.Join(err, b.count(try, id, len(old)))
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Warn("cannot prune dead letters in the store of the cluster, trying "+
				"again later", "component", "dead-letters", "err", err)
		}
	}
}

// sweepAll sweeps all queues: the member that had to sweep a queue may have died.
func (b *bounds) sweepAll(ctx context.Context) {
	b.queues.mu.Lock()
	claims := slices.Collect(maps.Keys(b.queues.byClaim))
	b.queues.mu.Unlock()
	for _, id := range claims {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		_ = b.queues.sweep(try, id) // tried again in a minute
		cancel()
	}
}

// count adds to the number of dropped dead letters of a queue.
func (b *bounds) count(ctx context.Context, claim string, n int) error {
	if n == 0 {
		return nil
	}
	stamp := rand.Text()
	return b.queues.swap(
		ctx,
		always,
		protocol.DeadLettersKey(claim),
		func(e *protocol.Entry) (time.Duration, bool, error) {
			h, err := headOf(claim, e)
			if err != nil || h.Stamp == stamp {
				return 0, true, err
			}
			h.Stamp, h.Dropped = stamp, h.Dropped+uint64(n)
			e.Value, err = json.Marshal(&h)
			return 0, false, err
		},
	)
}

// trim drops the n oldest dead letters of a queue, unless the queue has changed since this member last saw it. Whole
// segments go with the head, which counts their dead letters as dropped. The rest is dropped from the next segment, and
// counted afterwards.
func (b *bounds) trim(ctx context.Context, claim string, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b.queues.mu.Lock()
	revision := b.queues.at(claim).revision
	b.queues.mu.Unlock()
	var next int
	left := n
	stamp := rand.Text()
	err := b.queues.swap(
		ctx,
		always,
		protocol.DeadLettersKey(claim),
		func(e *protocol.Entry) (time.Duration, bool, error) {
			h, err := headOf(claim, e)
			if err != nil || h.Stamp == stamp { // by an earlier attempt
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
		},
	)
	if err == nil && left > 0 {
		err = b.trimSegment(ctx, claim, next, left)
	}
	if err != nil {
		return err
	}
	b.log.Warn("dead letters were dropped because there are too many", "component", "dead-letters", "pipeline_id",
		claim, "dropped", n)
	return b.queues.sweep(ctx, claim)
}

// trimSegment drops the n oldest dead letters of a segment, unless the segment has changed since this member last saw
// it. An expired segment that this member did not see empty is written again without dead letters, so that it is known.
func (b *bounds) trimSegment(ctx context.Context, claim string, number int, n int64) error {
	b.queues.mu.Lock()
	revision := b.queues.at(claim).segments[number].revision
	b.queues.mu.Unlock()
	stamp := rand.Text()
	var dropped int64
	err := b.queues.swap(ctx, always, protocol.SegmentKey(claim, number),
		func(e *protocol.Entry) (ttl time.Duration, done bool, err error) {
			g, err := segmentOf(e)
			if err != nil || g.Stamp == stamp { // by an earlier attempt
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

// changedSince notes the present entry of a part of a queue and returns errChanged.
func (b *bounds) changedSince(e protocol.Entry) error {
	b.queues.noted(e)
	return errChanged
}
