package letters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletters"
	"github.com/conduit-agent/conduit/agent/engine/deadletter"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	maxPending    = 8 << 20                // bytes that may wait to be written; more have to wait themselves
	writeInterval = 100 * time.Millisecond // in which a commit of positions may write what waits
	writeTimeout  = 5 * time.Second        // of a write that no commit waits for
	tidyInterval  = time.Minute            // between two looks for what is too much or too old
)

// Keep takes over a record that the pipeline of d refused. It is in the store of the cluster, or on the disk of this agent, before
// a position that covers it counts.
func (s *Share) Keep(ctx context.Context, d *spec.Declaration, l *deadletter.DeadLetter) error {
	id := d.Pipeline.ID
	if !s.Clustered(id) {
		return s.Local.Keep(ctx, d, l)
	}
	s.init()
	claim, epoch, owned := s.Owner(id)
	if !owned {
		return fmt.Errorf("cannot keep a refused record of pipeline %q: %w", id, cluster.ErrNotOwner)
	}
	one := deadletters.NewLetter(d, l, s.Local.Clock.Now())
	if !s.fits(one) {
		return s.Local.Keep(ctx, d, l)
	}
	if !s.queue(claim, epoch, one) {
		return s.flush(ctx, claim)
	}
	s.wake.Notify()
	return nil
}

// fits reports whether the store of the cluster takes a dead letter.
func (s *Share) fits(l *deadletters.Letter) bool {
	var err error
	if sizeOf(l) > maxPacked {
		_, err = pack([]*deadletters.Letter{l})
	}
	if err != nil {
		s.Log.Warn("a refused record is too large for the cluster's store, and is kept on this host", "component", "dead-letters", "pipeline_id", l.PipelineID, "bytes", l.Bytes)
	}
	return err == nil
}

// queue has a dead letter wait to be written, and reports whether there is memory for more.
func (s *Share) queue(claim string, epoch uint64, l *deadletters.Letter) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, n := s.at(claim), len(l.Record)
	if q.epoch != epoch { // what waits was refused under a claim that this agent lost: the next owner reads it again
		s.forget(q, len(q.pending))
	}
	q.epoch, q.pending = epoch, append(q.pending, l)
	q.bytes, s.bytes = q.bytes+n, s.bytes+n
	if s.memory == nil || s.memory.Take(n) {
		return s.bytes <= maxPending
	}
	s.memory.Add(n)
	return false
}

// forget takes the first n away from what waits. s.mu is held.
func (s *Share) forget(q *queue, n int) {
	for _, l := range q.pending[:n] {
		size := len(l.Record)
		q.bytes, s.bytes = q.bytes-size, s.bytes-size
		if s.memory != nil {
			s.memory.Add(-size)
		}
	}
	q.pending = slices.Clone(q.pending[n:])
}

// flush writes what waits for the claim of a pipeline. It goes on trying as long as this agent owns it.
func (s *Share) flush(ctx context.Context, claim string) error {
	q := s.of(claim)
	q.flushing.Lock()
	defer q.flushing.Unlock()
	pipeline, _ := protocol.InstanceOf(claim)
	_, now, _ := s.Owner(pipeline)
	s.mu.Lock()
	if q.epoch != now {
		s.forget(q, len(q.pending))
	}
	all, epoch := q.pending, q.epoch
	s.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	err := s.add(ctx, claim, epoch, copied(all), func() bool {
		now, at, ok := s.Owner(pipeline)
		return ok && now == claim && at == epoch
	})
	s.mu.Lock()
	if lost := errors.Is(err, cluster.ErrNotOwner); (err == nil || lost) && q.epoch == epoch {
		s.forget(q, len(all))
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cannot keep refused records of pipeline %q in the store of the cluster: %w", pipeline, err)
	}
	s.Local.Kept.Add(uint64(len(all)))
	s.enforce(ctx)
	return nil
}

// copied returns dead letters of which what is added to one is not added to those that wait, should they be written again.
func copied(all []*deadletters.Letter) []*deadletters.Letter {
	copies := make([]*deadletters.Letter, len(all))
	for i, l := range all {
		one := *l
		one.Refusals = slices.Clip(one.Refusals)
		copies[i] = &one
	}
	return copies
}

// Replicate implements commit.Replicas: dead letters come before the positions that cover them.
func (s *Share) Replicate(checkpoints []spec.Checkpoint, done func(pipeline string, err error)) {
	s.init()
	var free []spec.Checkpoint
	waiting := map[string][]spec.Checkpoint{} // by claim
	for _, c := range checkpoints {
		if claim := s.waits(c.PipelineID); claim != "" {
			waiting[claim] = append(waiting[claim], c)
			continue
		}
		free = append(free, c)
	}
	for claim, all := range waiting {
		go func() {
			if err := s.flush(s.running, claim); err != nil {
				done(all[0].PipelineID, err)
				return
			}
			s.Replicas.Replicate(all, done)
		}()
	}
	if len(free) > 0 {
		s.Replicas.Replicate(free, done)
	}
}

// waits returns the claim of a pipeline of which dead letters wait, "" for none.
func (s *Share) waits(pipeline string) string {
	claim, _, owned := s.Owner(pipeline)
	if !owned {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at(claim).pending) == 0 {
		return ""
	}
	return claim
}

// Run writes what waits although no position is saved, and drops what is too much or too old, until ctx ends.
func (s *Share) Run(ctx context.Context) {
	s.init()
	defer s.end()
	fails := notify.Throttle{Fails: "cannot keep refused records in the store of the cluster, trying again", Recovered: "refused records are kept in the store of the cluster again"}
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			s.tidy(ctx)
			continue
		case <-s.wake:
		}
		select { // the commit of a position may be faster
		case <-ctx.Done():
			return
		case <-time.After(writeInterval):
		}
		err := s.flushAll(ctx)
		if ctx.Err() == nil {
			fails.Observe(s.Log.With("component", "dead-letters"), err)
		}
		if err != nil {
			time.AfterFunc(time.Second, s.wake.Notify)
		}
	}
}

// flushAll writes all that waits.
func (s *Share) flushAll(ctx context.Context) (err error) {
	s.mu.Lock()
	var claims []string
	for claim, q := range s.queues {
		if len(q.pending) > 0 {
			claims = append(claims, claim)
		}
	}
	s.mu.Unlock()
	for _, claim := range claims {
		try, cancel := context.WithTimeout(ctx, writeTimeout)
		failed := s.flush(try, claim)
		cancel()
		if failed != nil && !errors.Is(failed, cluster.ErrNotOwner) {
			err = failed
		}
	}
	return err
}
