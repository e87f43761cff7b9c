package deadletters

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// changeOne calls f to change a dead letter. It reports whether the dead letter exists.
func (s *Store) changeOne(
	ctx context.Context, pipeline, claim string, id int64, f func(*deadletter.DeadLetter),
) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := s.queues.change(ctx, always, claim, withIDs(map[int64]bool{id: true}),
		func(l *deadletter.DeadLetter) verdict {
			if l.ID != id {
				return leave
			}
			f(l)
			return changed
		})
	if err != nil {
		err = unavailable(pipeline, err)
	}
	return len(all) > 0, err
}

// Edit implements api.DeadLetterStore.
func (s *Store) Edit(ctx context.Context, pipeline string, id int64, r *record.Record) (spec.DeadLetter, error) {
	claim, own, local := s.claimOf(pipeline, id)
	if local {
		l, err := s.needs.Local.Edit(ctx, pipeline, own, r)
		l.ID += id - own
		return l, err
	}
	found, err := s.changeOne(ctx, pipeline, claim, id, func(l *deadletter.DeadLetter) { l.Edit(r) })
	switch {
	case errors.Is(err, errTooLarge):
		return spec.DeadLetter{}, &spec.Error{Kind: spec.ErrInvalid, Code: spec.CodeInvalid,
			Message: err.Error() + ": make the record smaller"}
	case err != nil:
		return spec.DeadLetter{}, err
	case !found:
		return spec.DeadLetter{}, spec.ErrNotFound
	}
	return s.Get(ctx, pipeline, id)
}

// Drop implements api.DeadLetterStore.
func (s *Store) Drop(ctx context.Context, pipeline string, ids []int64) (int64, error) {
	return s.remove(ctx, pipeline, ids, func(*deadletter.DeadLetter) bool {
		return true
	}, func(own []int64) (int64, error) {
		return s.needs.Local.Drop(ctx, pipeline, own)
	})
}

// Settled implements deadletter.DeadLetters.
func (s *Store) Settled(ctx context.Context, pipeline string, all []deadletter.Replay) error {
	edits, ids, onHost := map[int64]int64{}, []int64(nil), map[int64]deadletter.Replay{}
	for _, r := range all {
		ids, edits[r.ID] = append(ids, r.ID), r.Edits
		if _, own, local := s.claimOf(pipeline, r.ID); local {
			r.ID = own
			onHost[own] = r
		}
	}
	n, err := s.remove(ctx, pipeline, ids, func(l *deadletter.DeadLetter) bool {
		return l.Edits == edits[l.ID]
	}, func(own []int64) (int64, error) {
		settled := make([]deadletter.Replay, len(own))
		for i, id := range own {
			settled[i] = onHost[id]
		}
		return 0, s.needs.Local.Settled(ctx, pipeline, settled)
	})
	s.needs.Local.Replayed.Add(uint64(n))
	return err
}

// remove removes the dead letters with these ids for which still returns true. It passes the ids on the disk of this
// agent to local.
func (s *Store) remove(
	ctx context.Context, pipeline string, ids []int64, still func(*deadletter.DeadLetter) bool,
	local func(own []int64) (int64, error),
) (n int64, err error) {
	var here []int64
	byClaim := map[string]map[int64]bool{}
	for _, id := range ids {
		claim, own, isLocal := s.claimOf(pipeline, id)
		if isLocal {
			here = append(here, own)
			continue
		}
		if byClaim[claim] == nil {
			byClaim[claim] = map[int64]bool{}
		}
		byClaim[claim][id] = true
	}
	if len(here) > 0 {
		if n, err = local(here); err != nil {
			return n, err
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(byClaim)) {
		k, err := s.dropFrom(ctx, pipeline, claim, withIDs(byClaim[claim]), func(l *deadletter.DeadLetter) bool {
			return byClaim[claim][l.ID] && still(l)
		})
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

// dropFrom removes the dead letters of a queue that match. Its time grows with the length of the queue, but it gives up
// after askTimeout without progress.
func (s *Store) dropFrom(
	ctx context.Context, pipeline, claim string, within func(part) bool, match func(*deadletter.DeadLetter) bool,
) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(askTimeout, cancel)
	defer limit.Stop()
	seen := map[int64]bool{}
	all, err := s.queues.change(ctx, always, claim, within, func(l *deadletter.DeadLetter) verdict {
		if !seen[l.ID] {
			seen[l.ID] = true
			limit.Reset(askTimeout)
		}
		if match(l) {
			return remove
		}
		return leave
	})
	if err != nil {
		err = unavailable(pipeline, err)
	}
	return int64(len(all)), err
}

// DropAll implements api.DeadLetterStore.
func (s *Store) DropAll(ctx context.Context, pipeline string, f spec.DeadLetterFilter) (n int64, err error) {
	for _, claim := range s.claims(pipeline) {
		until, err := s.queues.nextID(ctx, claim)
		if err != nil {
			return n, unavailable(pipeline, err)
		}
		k, err := s.dropFrom(ctx, pipeline, claim, func(p part) bool {
			return overlaps(p, &f)
		}, func(l *deadletter.DeadLetter) bool { return l.ID < until && l.Selected(&f) })
		if n += k; err != nil {
			return n, err
		}
	}
	own, err := s.needs.Local.DropAll(ctx, pipeline, f)
	return n + own, err
}

// Again implements deadletter.DeadLetters.
func (s *Store) Again(ctx context.Context, d *spec.Declaration, id int64, l *engine.DeadLetter, first bool) error {
	pipeline := d.Pipeline.ID
	claim, own, local := s.claimOf(pipeline, id)
	if local {
		return s.needs.Local.Again(ctx, d, own, l, first)
	}
	l.Stopped = false
	one := deadletter.New(d, l, s.needs.Local.Clock.Now())
	one.Refusals[0].Replay = true
	switch {
	case first:
		_, err := s.changeOne(ctx, pipeline, claim, id, func(there *deadletter.DeadLetter) { there.Replace(one) })
		return err
	case !s.fits(one):
		return s.needs.Local.Again(ctx, d, own, l, false)
	}
	return s.append(ctx, pipeline, claim, one)
}

// append appends a dead letter of a replay, whichever member owns the claim.
func (s *Store) append(ctx context.Context, pipeline, claim string, one *deadletter.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.queues.add(ctx, claim, 0, []*deadletter.DeadLetter{one}, always); err != nil {
		return unavailable(pipeline, err)
	}
	return nil
}

// Replayed is a Store for a replay on an agent that need not own the pipeline.
type Replayed struct{ *Store }

// Keep implements deadletter.DeadLetters.
func (s Replayed) Keep(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error {
	claims := s.claims(d.Pipeline.ID)
	if len(claims) == 0 {
		return s.needs.Local.Keep(ctx, d, l)
	}
	one := deadletter.New(d, l, s.needs.Local.Clock.Now())
	if !s.fits(one) {
		return s.needs.Local.Keep(ctx, d, l)
	}
	return s.append(ctx, d.Pipeline.ID, claims[len(claims)-1], one)
}

// Forget drops all dead letters of a pipeline, and resets the count of dropped ones. found reports whether there was
// anything to drop.
func (s *Store) Forget(ctx context.Context, pipeline string) (found bool, err error) {
	for _, claim := range s.claims(pipeline) {
		there, err := s.queues.forgetQueue(ctx, claim, ^uint64(0), 0)
		if found = found || there; err != nil {
			return found, unavailable(pipeline, err)
		}
	}
	own, err := s.needs.Local.Forget(ctx, pipeline)
	return found || own, err
}

// Deleted drops the dead letters of a claim that was deleted from the cluster at revision, unless a later owner has
// some. The empty queue expires after ttl. Every member tries this once.
func (s *Store) Deleted(ctx context.Context, claim string, revision uint64, ttl time.Duration) {
	if !s.queues.has(claim) {
		return
	}
	if _, err := s.queues.forgetQueue(ctx, claim, revision, ttl); err != nil {
		s.needs.Log.Warn("cannot remove the dead letters of a deleted pipeline from the store of the cluster",
			"component",
			"dead-letters", "pipeline_id", claim, "err", err)
	}
}

// Begin implements deadletter.Reservations.
func (s *Store) Begin(
	ctx context.Context, pipeline string, status func() spec.Replay, cancel func(why error),
) (end func(spec.Replay), err error) {
	if len(s.claims(pipeline)) == 0 {
		return func(spec.Replay) {}, nil
	}
	return s.leases.begin(ctx, pipeline, status, cancel)
}

// RemoteReplay implements deadletter.Reservations.
func (s *Store) RemoteReplay(ctx context.Context, pipeline string) (status spec.Replay, ok bool) {
	return s.leases.status(ctx, pipeline)
}

// Cancel implements deadletter.Reservations. It waits for some seconds for the replaying member to answer.
func (s *Store) Cancel(ctx context.Context, pipeline string) error {
	if len(s.claims(pipeline)) == 0 {
		return nil
	}
	return s.leases.cancel(ctx, pipeline)
}
