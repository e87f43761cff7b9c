package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/reconcile/plan"
	"github.com/conduit-agent/conduit/spec"
)

// slotTime is how long a slow start of a pipeline may keep others from starting. discardTimeout is the time that
// plugins get to end when they are not needed after all.
const (
	slotTime       = 2 * time.Second
	discardTimeout = 10 * time.Second
)

// launch is a version that is being started.
type launch struct {
	pipeline    *pipelineState
	loop        *Loop
	version     plan.Version
	declaration spec.Declaration
	ctx         context.Context // ends when it is abandoned
	cancel      context.CancelFunc
	old         *run // has to end first, or gets amended; nil for none
	amend       bool // amend old instead of replacing it
	again       bool // if its preparation fails, it is retried once at once
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

// launch starts a version. From here until its run has ended, one goroutine owns it; the run it replaces has ended
// before it begins.
func (p *pipelineState) launch(kind plan.Kind) {
	d := p.desired
	l := p.loop
	n := &launch{pipeline: p, loop: l, version: plan.Version{Generation: d.Generation, Digest: d.RunDigest},
		declaration: d.Declaration, old: p.run, amend: kind == plan.Amend}
	if kind == plan.Rollback {
		good := p.State.LastGood
		n.version = plan.Version{Generation: good.Generation, Digest: l.RunDigest(&good.Pipeline),
			Instead: d.Generation}
		n.declaration.Pipeline, n.declaration.Generation, n.declaration.Owner.Places = good.Pipeline, good.Generation,
			""
	} else {
		p.Refused = 0
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
	l.mail.workers++
	go n.work()
}

// work prepares the version, lets it take over from the running one, and runs it.
func (n *launch) work() {
	l, p := n.loop, n.pipeline
	defer func() { l.mail.posts <- func() { l.mail.workers-- } }()
	defer n.cancel()
	release, ok := n.slot()
	if !ok {
		l.mail.post(func() { n.abandoned() })
		return
	}
	defer release()
	if n.amend && n.amendOld() {
		return
	}
	next, err := l.Runner.Prepare(n.ctx, &n.declaration)
	if err != nil {
		l.mail.post(func() { n.notPrepared(err) })
		return
	}
	r, ok := n.takeOver(next)
	if !ok {
		n.discard(next)
		l.mail.post(func() { n.abandoned() })
		return
	}
	ctx, cancel := context.WithCancel(l.base)
	defer cancel()
	l.mail.post(func() { n.begun(r, cancel) })
	err = r.inner.Run(ctx, r.drain, func() {
		release()
		l.mail.post(func() { p.ran(r, "Started") })
	})
	l.mail.post(func() { p.ended(r, err) })
	close(r.ended)
}

// amendOld amends the old run to the version of n. It returns false when the version needs a new run.
func (n *launch) amendOld() bool {
	l, p := n.loop, n.pipeline
	r := n.old
	amendment, err := r.inner.Amend(n.ctx, &n.declaration)
	if err != nil {
		if errors.Is(err, spec.ErrNeedsRestart) {
			return false
		}
		l.mail.post(func() { n.notPrepared(err) })
		return true
	}
	var begins bool
	l.mail.post(func() { begins = n.amending(r) })
	if !begins {
		n.discard(amendment)
		l.mail.post(func() { n.abandoned() })
		return true
	}
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
	switch {
	case err == nil:
		l.mail.post(func() { p.ran(r, "Amended") })
	case errors.Is(err, spec.ErrNeedsRestart):
		l.mail.post(func() { n.unchanged(r) })
	}
	return true
}

// discard tears down a prepared run or amendment that is not needed after all.
func (n *launch) discard(of interface{ Discard(ctx context.Context) }) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.loop.base), discardTimeout)
	defer cancel()
	of.Discard(ctx)
}

// takeOver drains the old run and waits for its end. It returns false when the new version was abandoned meanwhile.
func (n *launch) takeOver(next Run) (*run, bool) {
	l, p := n.loop, n.pipeline
	if n.old != nil {
		l.mail.post(func() {
			if n.ctx.Err() == nil && p.run == n.old {
				p.stop(l.Policy.DrainTimeout)
			}
		})
		select {
		case <-n.old.ended:
		case <-n.ctx.Done():
		}
	}
	return &run{inner: next, version: n.version, drain: make(chan struct{}), ended: make(chan struct{})},
		n.ctx.Err() == nil
}

// slot waits for permission to start: a semaphore limits how many versions start at a time. Calling release gives the
// slot back, and so does the end of slotTime.
func (n *launch) slot() (release func(), ok bool) {
	select {
	case n.loop.slots <- struct{}{}:
	case <-n.ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-n.loop.slots })
	timer := time.AfterFunc(slotTime, give)
	return func() { timer.Stop(); give() }, true
}
