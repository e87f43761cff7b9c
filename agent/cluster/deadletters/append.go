package deadletters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/spec"
)

const (
	goneFor = time.Hour // for which the key of an empty segment is kept
	// A record that is refused again is recognized among this number of the newest dead letters of a queue, or this
	// number of bytes of their records.
	maxHashes      = 1 << 14
	maxHashedBytes = 16 << 20
)

// headOf decodes the head in an entry. An entry without value gives an empty head.
func headOf(claim string, e *protocol.Entry) (h head, err error) {
	if e.Value != nil {
		err = json.Unmarshal(e.Value, &h)
	}
	if h.Format > format || err != nil {
		return h, errNewer
	}
	if h.ID == "" {
		h = head{Format: format, ID: claim, NextID: firstID(claim)}
	}
	return h, nil
}

// put encodes a head and its tail into an entry.
func (h *head) put(e *protocol.Entry, tail []*deadletter.DeadLetter) (err error) {
	h.Tail = partOf(tail)
	if e.State, err = pack(tail); err == nil {
		e.Value, err = json.Marshal(h)
	}
	return err
}

// add appends dead letters to a queue: those of an owner with the epoch of the claim, those of a replay with epoch 0. A
// dead letter that is already in the queue gets another refusal. When add returns nil, all are in the store. add
// retries until may returns false.
func (qs *queues) add(
	ctx context.Context, claim string, epoch uint64, all []*deadletter.DeadLetter, may func() bool,
) error {
	q := qs.get(claim)
	q.appending.Lock()
	defer q.appending.Unlock()
	a := &addition{queues: qs, queue: q, claim: claim, epoch: epoch, all: all, stamp: rand.Text(),
		revisions: map[int]uint64{}, may: may}
	for {
		if err := a.lead(ctx); err != nil {
			return err
		}
		if err := a.known(ctx); err != nil || len(a.all) == 0 {
			return err
		}
		err := qs.swap(ctx, may, protocol.DeadLettersKey(claim), func(e *protocol.Entry) (time.Duration, bool, error) {
			done, err := a.try(ctx, e)
			return 0, done, err
		})
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			return err
		}
		for _, l := range a.all {
			q.ids[string(l.Hash)] = l.ID
		}
		return nil
	}
}

// addition is a set of dead letters being appended to a queue.
type addition struct {
	queues    *queues
	queue     *queue
	claim     string
	epoch     uint64
	all       []*deadletter.DeadLetter
	stamp     string
	revisions map[int]uint64 // revisions of segments that were written or are in the way, by number
	may       func() bool
}

var errOvertaken = errors.New("another process appends") // does not leave this package

// check returns an error if the dead letters must not be appended.
func (a *addition) check(h *head) error {
	if !a.may() || a.epoch > 0 && h.Epoch > a.epoch {
		return cluster.ErrNotOwner
	}
	return nil
}

// lead makes this process the writer of segments, and loads the ids of the newest dead letters. If a process wrote a
// segment that no head counts yet, and another process is about to write the same segment, only one may continue: the
// head must name the writer, and must not change until it counts the segment.
func (a *addition) lead(ctx context.Context) error {
	qs := a.queues
	led := a.queue.ids != nil
	err := qs.swap(ctx, a.may, protocol.DeadLettersKey(a.claim), func(e *protocol.Entry) (time.Duration, bool, error) {
		h, err := headOf(a.claim, e)
		if err == nil {
			err = a.check(&h)
		}
		if err != nil || h.Writer == qs.me && h.Epoch >= a.epoch {
			return 0, true, err
		}
		led = led && h.Writer == qs.me
		h.Writer, h.Epoch, h.Stamp = qs.me, max(h.Epoch, a.epoch), rand.Text()
		e.Value, err = json.Marshal(&h)
		return 0, false, err
	})
	if err != nil || led {
		return err
	}
	ids, bytes := map[string]int64{}, int64(0)
	_, err = qs.walk(ctx, a.may, a.claim, newestFirst, anything, func(all []*deadletter.DeadLetter) (bool, error) {
		for _, l := range all {
			ids[string(l.Hash)] = l.ID
			bytes += l.Bytes
		}
		return len(ids) < maxHashes && bytes < maxHashedBytes, nil
	})
	if err == nil {
		a.queue.ids = ids
	}
	return err
}

// known adds refusals to the dead letters that are already in the queue, and removes these from the addition.
func (a *addition) known(ctx context.Context) error {
	ids, again := a.queue.ids, map[int64][]*deadletter.DeadLetter{}
	batch := map[string]*deadletter.DeadLetter{}
	fresh := a.all[:0:0]
	for _, l := range a.all {
		hash := string(l.Hash)
		switch id, there := ids[hash]; {
		case there:
			again[id] = append(again[id], l)
		case batch[hash] != nil:
			batch[hash].RefuseAgain(l)
		default:
			batch[hash], fresh = l, append(fresh, l)
		}
	}
	a.all = fresh
	if len(again) == 0 {
		return nil
	}
	done, err := a.queues.change(ctx, a.may, a.claim, withIDs(again), func(l *deadletter.DeadLetter) verdict {
		by := again[l.ID]
		if len(by) == 0 || string(by[0].Hash) != string(l.Hash) {
			return leave
		}
		for _, one := range by {
			// An earlier attempt may have added this refusal.
			if at := one.Refusals[0].Time; !slices.ContainsFunc(l.Refusals, func(r spec.Refusal) bool {
				return r.Time.Equal(at)
			}) {
				l.RefuseAgain(one)
			}
		}
		return changed
	})
	if err != nil && !errors.Is(err, errTooLarge) {
		return err
	}
	for _, l := range done {
		delete(again, l.ID)
	}
	for _, by := range again { // it was dropped, or its segment is full
		delete(ids, string(by[0].Hash))
		for _, one := range by[1:] {
			by[0].RefuseAgain(one)
		}
		a.all = append(a.all, by[0])
	}
	return nil
}

// try writes the full segments, and encodes into the entry the head that counts them.
func (a *addition) try(ctx context.Context, e *protocol.Entry) (done bool, err error) {
	h, err := headOf(a.claim, e)
	if err != nil || h.Added == a.stamp { // by an earlier attempt
		return true, err
	}
	if err := a.check(&h); err != nil {
		return false, err
	}
	if h.Writer != a.queues.me || h.Epoch < a.epoch {
		a.queue.ids = nil
		return false, errOvertaken
	}
	all, err := unpack(e.State)
	if err != nil {
		return false, err
	}
	for _, l := range a.all {
		l.ID, h.NextID = h.NextID, h.NextID+1
		l.Time = l.Refusals[0].Time
		if !l.Time.After(h.Newest) {
			l.Time = h.Newest.Add(1)
		}
		h.Newest = l.Time
		all = append(all, l)
	}
	segments, tail := divide(all)
	for _, some := range segments {
		if err := a.seal(ctx, h.Next, some); err != nil {
			return false, err
		}
		h.Next++
	}
	a.queues.advance(&h)
	h.Stamp, h.Added = a.stamp, a.stamp
	return false, h.put(e, tail)
}

func (a *addition) seal(ctx context.Context, number int, all []*deadletter.DeadLetter) error {
	qs := a.queues
	e := protocol.Entry{Key: protocol.SegmentKey(a.claim, number), Revision: a.revisions[number]}
	if err := putSegment(&e, a.claim, number, a.stamp, all); err != nil {
		return err
	}
	switch o := qs.write(ctx, protocol.Write{Entry: e}); o.Result {
	case protocol.Applied:
		a.revisions[number] = o.Revision
		e.Revision = o.Revision
		qs.noted(e)
		return nil
	case protocol.Conflict: // it may be overwritten if the head, which is read again, does not count it
		there, err := qs.read(ctx, e.Key)
		if err == nil {
			a.revisions[number] = there.Revision
		}
	}
	return errAgain
}

// putSegment encodes a segment into an entry.
func putSegment(e *protocol.Entry, claim string, number int, stamp string, all []*deadletter.DeadLetter) (err error) {
	if e.State, err = pack(all); err != nil {
		return err
	}
	e.Value, err = json.Marshal(&segment{Format: format, ID: claim, Number: number, Stamp: stamp, part: partOf(all)})
	if err != nil {
		return fmt.Errorf("cannot encode a segment of dead letters: %w", err)
	}
	return nil
}

// advance moves the start of a head past empty segments.
func (qs *queues) advance(h *head) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.at(h.ID)
	for g, known := q.segments[h.First]; known && g.Count == 0 && h.First < h.Next; g, known = q.segments[h.First] {
		h.First++
	}
}
