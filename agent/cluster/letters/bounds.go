package letters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletters"
)

const (
	maxTrims = 100       // at once; the next dead letter, or the next minute, goes on
	noAgeFor = time.Hour // after its start an agent drops nothing for its age: its clock may be to be set
)

var errChanged = errors.New("the queue changed") // does not leave this package

// enforce drops what exceeds the limits, for all pipelines of the cluster together: the oldest of the queue that has most.
func (s *Share) enforce(ctx context.Context) {
	for range maxTrims {
		claim, n := s.excess()
		if n == 0 {
			return
		}
		if err := s.trim(ctx, claim, n); err != nil && !errors.Is(err, errChanged) {
			s.Log.Warn("there are more dead letters in the store of the cluster than there should be, trying again later", "component", "dead-letters", "err", err)
			return
		}
	}
}

// excess returns the queue of which the oldest n are to be dropped.
func (s *Share) excess() (claim string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var count, bytes, mostCount, mostBytes int64
	var byCount, byBytes string
	for id, q := range s.queues {
		c, b := q.total()
		count, bytes = count+c, bytes+b
		if c > mostCount {
			mostCount, byCount = c, id
		}
		if b > mostBytes {
			mostBytes, byBytes = b, id
		}
	}
	limits := s.Local.Limits
	switch {
	case limits.Count > 0 && count > limits.Count:
		return byCount, min(count-limits.Count, mostCount)
	case limits.Bytes > 0 && bytes > limits.Bytes:
		c, b := s.queues[byBytes].total()
		return byBytes, min(max(1, c*(bytes-limits.Bytes)/b), c)
	}
	return "", 0
}

// tidy drops what is too much or too old.
func (s *Share) tidy(ctx context.Context) {
	s.enforce(ctx)
	s.sweepAll(ctx)
	if s.Local.Limits.Age == 0 || time.Since(s.begun) < noAgeFor {
		return
	}
	before := s.Local.Clock.Now().Add(-s.Local.Limits.Age)
	s.mu.Lock()
	var claims []string
	for id, q := range s.queues {
		if from := q.since(); !from.IsZero() && from.Before(before) {
			claims = append(claims, id)
		}
	}
	s.mu.Unlock()
	for _, id := range claims {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		old, err := s.change(try, always, id, func(p part) bool { return p.From.Before(before) }, func(l *deadletters.Letter) verdict {
			if l.Time.Before(before) {
				return remove
			}
			return leave
		})
		err = errors.Join(err, s.count(try, id, len(old)))
		cancel()
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("dead letters are kept in the store of the cluster for longer than they should be, trying again later", "component", "dead-letters", "err", err)
		}
	}
}

// sweepAll sweeps all queues: who was to sweep one may have died.
func (s *Share) sweepAll(ctx context.Context) {
	s.mu.Lock()
	claims := slices.Collect(maps.Keys(s.queues))
	s.mu.Unlock()
	for _, id := range claims {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		_ = s.sweep(try, id) // it is tried again in a minute
		cancel()
	}
}

// count counts dead letters of a queue that were dropped.
func (s *Share) count(ctx context.Context, claim string, n int) error {
	if n == 0 {
		return nil
	}
	stamp := rand.Text()
	return s.swap(ctx, always, protocol.LettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		h, err := headOf(claim, e)
		if err != nil || h.Stamp == stamp {
			return 0, true, err
		}
		h.Stamp, h.Dropped = stamp, h.Dropped+uint64(n)
		e.Value, err = json.Marshal(&h)
		return 0, false, err
	})
}

// since returns when the first dead letter was refused, zero for none.
func (q *queue) since() (from time.Time) {
	if q.head.Tail.Count > 0 {
		from = q.head.Tail.From
	}
	for n, g := range q.segments {
		if n >= q.head.First && n < q.head.Next && g.Count > 0 && (from.IsZero() || g.From.Before(from)) {
			from = g.From
		}
	}
	return from
}

// trim drops the n oldest dead letters of a queue, unless that changed since it was seen last. Segments as a whole go with the
// head, which counts what goes with it; what is to go of the next one goes from there, and is counted afterwards.
func (s *Share) trim(ctx context.Context, claim string, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s.mu.Lock()
	revision := s.at(claim).revision
	s.mu.Unlock()
	var next int
	left := n
	stamp := rand.Text()
	err := s.swap(ctx, always, protocol.LettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		h, err := headOf(claim, e)
		if err != nil || h.Stamp == stamp { // by a try before
			return 0, true, err
		}
		if e.Revision != revision {
			return 0, false, s.changedSince(*e)
		}
		next, left = h.First, n
		for ; next < h.Next; next++ {
			p, known := s.seen(claim, next)
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
		err = s.trimSegment(ctx, claim, next, left)
	}
	if err != nil {
		return err
	}
	s.Log.Warn("dead letters were dropped because there are too many", "component", "dead-letters", "pipeline_id", claim, "dropped", n)
	return s.sweep(ctx, claim)
}

// trimSegment drops the n oldest dead letters of a segment, unless that changed since it was seen last. One that expired, which this
// member did not see empty, is made again without any, so that it is known.
func (s *Share) trimSegment(ctx context.Context, claim string, number int, n int64) error {
	s.mu.Lock()
	revision := s.at(claim).segments[number].revision
	s.mu.Unlock()
	stamp := rand.Text()
	var dropped int64
	err := s.swap(ctx, always, protocol.SegmentKey(claim, number), func(e *protocol.Entry) (ttl time.Duration, done bool, err error) {
		g, err := segmentOf(e)
		if err != nil || g.Stamp == stamp { // by a try before
			return 0, true, err
		}
		if e.Revision != revision {
			return 0, false, s.changedSince(*e)
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
	return s.count(ctx, claim, int(dropped))
}

// changedSince takes what a part of a queue is by now.
func (s *Share) changedSince(e protocol.Entry) error {
	s.Note(e)
	return errChanged
}
