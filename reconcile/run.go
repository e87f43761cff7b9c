package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// The life of a run, in order. Each step is a function in the goroutine of Loop.Run. It begins one piece of slow work
// in a goroutine, and the result of the work is the argument of the next step:
//
//	launch → prepared → replace → ran → ended      a new run; replace first waits for the end of the old one
//	launch → amend → drained → ran, amended        a change of the run that continues
//
// At prepared and amend, and until replace, a launch may end instead: abandoned, or rejected.

// slotTime is how long a slow start of a pipeline may keep others from starting. discardTimeout is the time that
// plugins get to end when they are not needed after all. amendTimeout is how long a change waits for the end of an
// amendment rather than restarting the pipeline.
const (
	slotTime       = 2 * time.Second
	discardTimeout = 10 * time.Second
	amendTimeout   = 5 * time.Second
)

var errUnasked = errors.New("the pipeline ended unexpectedly")

// launch is a version that is being started.
type launch struct {
	pipeline    *pipelineState
	loop        *Loop
	version     plan.Version
	declaration spec.Declaration
	ctx         context.Context // ends when it is abandoned
	cancel      context.CancelFunc
	old         *run   // has to end first, or gets amended; nil for none
	again       bool   // if its preparation fails, it is retried once at once
	release     func() // gives back the slot; may be called again
}

// run is a running version. The loop owns all fields but ended.
type run struct {
	inner    Run
	version  plan.Version
	drain    chan struct{}
	cancel   context.CancelFunc
	ended    chan struct{} // closed after the run has ended completely and its end was recorded
	stopping bool
	amending bool // from the beginning of an amendment until its old part has drained
	started  bool
	force    *time.Timer
}

// launch starts a version. A run that it replaces has ended before the new run begins.
func (p *pipelineState) launch(kind plan.Kind) {
	d := p.desired
	l := p.loop
	n := &launch{pipeline: p, loop: l, version: plan.Version{Generation: d.Generation, Digest: d.RunDigest},
		declaration: d.Declaration, old: p.run, release: func() {}}
	if kind == plan.Rollback {
		good := p.State.LastGood
		n.version = plan.Version{Generation: good.Generation, Digest: l.RunDigest(&good.Pipeline),
			Instead: d.Generation}
		n.declaration.Pipeline, n.declaration.Generation, n.declaration.Owner.Places = good.Pipeline, good.Generation,
			""
	} else {
		p.Rejected = 0
	}
	if p.Again != "" {
		p.Again, p.failures = "", failures{}
	}
	n.version.Pipeline = &n.declaration.Pipeline
	n.ctx, n.cancel = context.WithCancel(l.base)
	p.next = n
	if p.run == nil {
		p.update(func(s *spec.State) { s.Phase, s.StoppedByUser, s.RetryAt = spec.PhaseStarting, false, nil })
	}
	var next Run
	var amendment Amendment
	var err error
	l.mail.async(func() { next, amendment, err = n.prepare(kind == plan.Amend) }, func() {
		switch {
		case err != nil:
			n.rejected(err)
		case amendment != nil:
			n.amend(amendment)
		default:
			n.prepared(next)
		}
	})
}

// prepare prepares the amendment of the old run if that is wanted and possible, and a new run otherwise.
func (n *launch) prepare(amend bool) (next Run, amendment Amendment, err error) {
	if n.release, err = n.slot(); err != nil {
		return nil, nil, err
	}
	if amend {
		amendment, err = n.old.inner.Amend(n.ctx, &n.declaration)
		if !errors.Is(err, spec.ErrNeedsRestart) {
			return nil, amendment, err
		}
	}
	next, err = n.loop.Runner.Prepare(n.ctx, &n.declaration)
	return next, nil, err
}

// slot waits for permission to start: a semaphore limits how many versions start at a time. Calling release gives the
// slot back, and so does the end of slotTime.
func (n *launch) slot() (release func(), err error) {
	select {
	case n.loop.slots <- struct{}{}:
	case <-n.ctx.Done():
		return func() {}, n.ctx.Err()
	}
	give := sync.OnceFunc(func() { <-n.loop.slots })
	timer := time.AfterFunc(slotTime, give)
	return func() { timer.Stop(); give() }, nil
}

// rejected: the version of n cannot run, or n was abandoned. The current run was not touched.
func (n *launch) rejected(err error) {
	p, abandoned := n.pipeline, n.ctx.Err() != nil
	n.abandoned()
	if abandoned {
		return
	}
	p.notStarted(n.version, err)
	p.retriable = true
	if n.again {
		p.retrySoon()
	}
}

// abandoned: n has ended completely without a run.
func (n *launch) abandoned() {
	p := n.pipeline
	n.finish()
	if p.next == n {
		p.next = nil
	}
	p.released()
	p.touch()
}

// finish releases the resources of n.
func (n *launch) finish() {
	n.release()
	n.cancel()
}

// discard tears down a prepared run or amendment that is not needed after all.
func (n *launch) discard(prepared interface{ Discard(ctx context.Context) }) {
	n.loop.mail.async(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.loop.base), discardTimeout)
		defer cancel()
		prepared.Discard(ctx)
	}, n.abandoned)
}

// prepared: the plugins of the next run have accepted their settings. The old run drains.
func (n *launch) prepared(next Run) {
	p, old := n.pipeline, n.old
	if old == nil || n.ctx.Err() != nil {
		n.replace(next)
		return
	}
	if p.run == old {
		p.stop(n.loop.Policy.DrainTimeout)
	}
	n.loop.mail.async(func() {
		select {
		case <-old.ended:
		case <-n.ctx.Done():
		}
	}, func() { n.replace(next) })
}

// replace: nothing runs any more, and the next run begins, unless n was abandoned.
func (n *launch) replace(next Run) {
	p, l := n.pipeline, n.loop
	if n.ctx.Err() != nil {
		n.discard(next)
		return
	}
	ctx, cancel := context.WithCancel(l.base)
	r := &run{inner: next, version: n.version, drain: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
	p.next, p.run = nil, r
	p.retriable = p.retriable && n.version.Instead != 0
	p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	p.touch()
	var err error
	l.mail.async(func() {
		err = next.Run(ctx, r.drain, func() {
			n.release()
			l.mail.post(func() { p.ran(r, "Started") })
		})
	}, func() {
		p.ended(r, err)
		cancel()
		n.finish()
	})
}

// amend: the plugins that the change of the old run needs have accepted their settings. The run begins to become the
// version of n. If n was abandoned or the run is about to end, n, if it is still wanted, starts by itself.
func (n *launch) amend(amendment Amendment) {
	p, l, r := n.pipeline, n.loop, n.old
	if n.ctx.Err() != nil || p.run != r || r.stopping {
		n.discard(amendment)
		return
	}
	p.next, r.amending = nil, true
	var err error
	l.mail.async(func() {
		inTime := func() bool { return true }
		if l.Policy.DrainTimeout > 0 {
			inTime = time.AfterFunc(l.Policy.DrainTimeout, r.cancel).Stop
		}
		err = amendment.Apply(func() {
			if inTime() {
				l.mail.post(func() { n.drained(r) })
			}
		})
		inTime()
	}, func() {
		n.amended(r, err)
		n.finish()
	})
}

// drained: the part of r that n replaces has ended in order. From here on r is the version of n, and fails as such.
func (n *launch) drained(r *run) {
	p := n.pipeline
	r.version, r.amending, r.started, p.retriable = n.version, false, false, false
	p.Probation, p.OpensBy = time.Time{}, time.Now().Add(amendTimeout)
	p.update(func(s *spec.State) {
		s.RunningGeneration = 0
		if !r.stopping {
			s.Phase = spec.PhaseStarting
		}
	})
	p.touch()
}

// amended: r moves records as the version of n, continues unchanged, or ends by itself.
func (n *launch) amended(r *run, err error) {
	switch {
	case err == nil:
		n.pipeline.ran(r, "Amended")
	case errors.Is(err, spec.ErrNeedsRestart):
		r.amending = false
		n.pipeline.touch()
	}
}

// ran: r has opened its connectors, or the connectors that an amendment changed, and moves records.
func (p *pipelineState) ran(r *run, reason string) {
	r.started, p.OpensBy = true, time.Time{}
	v := r.version
	p.logRuns(v, reason)
	good, tried := p.State.LastGood, p.State.LastAttempt
	changed := good != nil && good.Generation != v.Generation
	// it ran before and is still on probation
	again := tried != nil && tried.Generation == v.Generation && tried.Error == ""
	p.update(func(s *spec.State) {
		if !r.stopping {
			s.Phase = spec.PhaseRunning
		}
		s.RunningGeneration, s.Error, s.RetryAt = v.Generation, "", nil
		if s.Stall != nil && s.Stall.Generation != v.Generation {
			s.Stall = nil // another version stalled
		}
		newer := s.LastAttempt != nil && s.LastAttempt.Generation > v.Generation // failed while v was opened
		if v.Instead == 0 && !newer {
			s.LastAttempt = &spec.Attempt{Generation: v.Generation, At: time.Now()}
		}
	})
	if v.Instead == 0 {
		p.beginProbation(r)
	}
	if changed {
		p.loop.stale = true // connectors that the version dropped may be orphans
	}
	if changed && !again {
		p.warnOfLostPositions(&good.Pipeline, v.Pipeline)
	}
	message := fmt.Sprintf("generation %d is running", v.Generation)
	if v.Instead != 0 {
		reason, message = "RolledBack", fmt.Sprintf("generation %d is running because generation %d failed",
			v.Generation, v.Instead)
	}
	p.event(spec.EventNormal, reason, message)
	p.touch()
}

func (p *pipelineState) logRuns(v plan.Version, reason string) {
	switch {
	case v.Instead != 0:
		p.log().Info("pipeline was rolled back to the last known good version", "generation", v.Generation,
			"failed_generation", v.Instead)
	case reason == "Amended":
		p.log().Info("pipeline was changed without a restart", "generation", v.Generation)
	default:
		p.log().Info("pipeline runs", "generation", v.Generation)
	}
}

// beginProbation starts the probation of r if there is another last known good version to roll back to. Otherwise r
// becomes the last known good version.
func (p *pipelineState) beginProbation(r *run) {
	good := p.State.LastGood
	if good == nil || p.loop.Policy.Probation <= 0 || p.loop.RunDigest(&good.Pipeline) == r.version.Digest {
		p.keepAsGood(r)
		return
	}
	p.Probation = time.Now().Add(p.loop.Policy.Probation)
}

// ended: r has ended completely.
func (p *pipelineState) ended(r *run, err error) {
	defer close(r.ended)
	if r.force != nil {
		r.force.Stop()
	}
	if p.run == r {
		p.run = nil
	}
	p.released()
	p.touch()
	p.update(func(s *spec.State) { s.RunningGeneration = 0 })
	if err == nil && !r.stopping {
		err = errUnasked
	}
	onProbation := !p.Probation.IsZero()
	p.Probation, p.OpensBy = time.Time{}, time.Time{}
	switch {
	case p.next != nil:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case r.stopping:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStopped })
		p.event(spec.EventNormal, "Stopped", fmt.Sprintf("generation %d stopped", r.version.Generation))
		p.log().Info("pipeline stopped")
	case r.amending:
		p.disturbed(err)
		p.update(func(s *spec.State) { s.Phase = spec.PhaseStarting })
	case !r.started || onProbation:
		p.notStarted(r.version, err)
	default:
		p.recover(r.version, err)
	}
}

// released: nothing starts connectors of the pipeline any more. The connectors of a withdrawn pipeline are read again,
// because the last one may have been started after the withdrawal.
func (p *pipelineState) released() {
	if p.desired != nil && !p.desired.Withdrawn.IsZero() {
		p.loop.stale = true
	}
}

// disturbed reports an error that has no effect on the next step.
func (p *pipelineState) disturbed(err error) {
	if err == nil {
		return
	}
	p.log().Warn("pipeline did not end cleanly, in-flight records will be delivered again", "err", err)
	p.event(spec.EventWarning, "StopFailed", err.Error())
}
