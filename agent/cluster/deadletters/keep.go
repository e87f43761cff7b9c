package deadletters

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	writeInterval = 100 * time.Millisecond // in which the commit of a position may write pending dead letters
	tidyInterval  = time.Minute            // interval at which the limits are checked
)

// Keep takes over a record that the pipeline of d refused. The record is in the store of the cluster, or on the disk of
// this agent, before a position that covers it counts.
func (s *Store) Keep(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error {
	id := d.Pipeline.ID
	if !s.Clustered(id) {
		return s.needs.Local.Keep(ctx, d, l)
	}
	claim, epoch, owned := s.needs.Owner(id)
	if !owned {
		return fmt.Errorf("cannot keep a dead letter of pipeline %q: %w", id, cluster.ErrNotOwner)
	}
	one := deadletter.New(d, l, s.needs.Local.Clock.Now())
	if !s.fits(one) {
		return s.needs.Local.Keep(ctx, d, l)
	}
	if !s.outbox.put(claim, epoch, one) {
		return s.outbox.flush(ctx, claim)
	}
	s.wake.Notify()
	return nil
}

// fits reports whether a dead letter is small enough for the store of the cluster.
func (s *Store) fits(l *deadletter.DeadLetter) bool {
	var err error
	if sizeOf(l) > maxPacked {
		_, err = pack([]*deadletter.DeadLetter{l})
	}
	if err != nil {
		s.needs.Log.Warn("a dead letter is too large for the store of the cluster, keeping it on this host",
			"component",
			"dead-letters", "pipeline_id", l.PipelineID, "bytes", l.Bytes)
	}
	return err == nil
}

// Replicate implements engine.Replicas. It writes dead letters before the positions that cover them.
func (s *Store) Replicate(checkpoints []spec.Checkpoint, done func(pipeline string, err error)) {
	var free []spec.Checkpoint
	waiting := map[string][]spec.Checkpoint{} // by claim
	for _, c := range checkpoints {
		if claim := s.outbox.waits(c.PipelineID); claim != "" {
			waiting[claim] = append(waiting[claim], c)
			continue
		}
		free = append(free, c)
	}
	for claim, all := range waiting {
		go func() {
			if err := s.outbox.flush(s.running, claim); err != nil {
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

// Run writes pending dead letters even if no position is saved, and enforces the limits, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	defer s.end()
	fails := notify.Throttle{Fails: "cannot write dead letters to the store of the cluster, trying again",
		Recovered: "dead letters can be written to the store of the cluster again"}
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			s.bounds.tidy(ctx)
			continue
		case <-s.wake:
		}
		select { // the commit of a position may write them first
		case <-ctx.Done():
			return
		case <-time.After(writeInterval):
		}
		err := s.outbox.flushAll(ctx)
		if ctx.Err() == nil {
			fails.Observe(s.needs.Log.With("component", "dead-letters"), err)
		}
		if err != nil {
			time.AfterFunc(time.Second, s.wake.Notify)
		}
	}
}
