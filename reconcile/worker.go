package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// How long a pipeline that is slow to start may keep others from starting, what is
// granted to plugins that are not needed after all, and how long a change waits for the
// end of an amendment rather than restarting the pipeline.
const (
	slotTime       = 2 * time.Second
	discardTimeout = 10 * time.Second
	amendPatience  = 5 * time.Second
)

// launch is a version on its way to become the run.
type launch struct {
	version     Version
	declaration spec.Declaration
	ctx         context.Context // ends when it is abandoned
	cancel      context.CancelFunc
	old         *run // that has to end first, or is to be amended; nil for none
	amend       bool // old is to be amended
	again       bool // when it cannot be prepared it is tried once more at once
}

// run is a version that runs. All but ended is owned by the loop.
type run struct {
	inner    Run
	version  Version
	drain    chan struct{}
	cancel   context.CancelFunc
	ended    chan struct{} // closed after everything of it has ended and was noted
	stopping bool
	amending bool // from the beginning of an amendment until its old part has drained
	started  bool
	force    *time.Timer
}

// launch begins to start a version. From here until its run has ended, one goroutine
// owns it; the run it replaces has ended before it begins.
func (l *Loop) launch(p *pipe, kind Kind) {
	d := p.desired
	n := &launch{version: Version{Generation: d.Generation, Digest: d.RunDigest}, declaration: d.Declaration, old: p.run, amend: kind == Amend}
	if kind == Rollback {
		good := p.State.LastGood
		n.version = Version{Generation: good.Generation, Digest: l.RunDigest(&good.Pipeline), Instead: d.Generation}
		n.declaration.Pipeline, n.declaration.Generation = good.Pipeline, good.Generation
	} else {
		p.Refused = 0
	}
	if p.Again != "" {
		p.Again, p.failures = "", nil
	}
	n.version.Pipeline = &n.declaration.Pipeline
	n.ctx, n.cancel = context.WithCancel(l.base)
	p.next = n
	if p.run == nil {
		l.update(p, func(s *spec.State) { s.Phase, s.StoppedByUser, s.RetryAt = spec.PhaseStarting, false, nil })
	}
	l.workers++
	go l.work(p, n)
}

func (l *Loop) work(p *pipe, n *launch) {
	defer func() { l.notes <- func() { l.workers-- } }()
	defer n.cancel()
	release, ok := l.slot(n.ctx)
	if !ok {
		l.tell(func() { l.abandoned(p, n) })
		return
	}
	defer release()
	if n.amend && l.amend(p, n) {
		return
	}
	next, err := l.Runner.Prepare(n.ctx, &n.declaration)
	if err != nil {
		l.tell(func() { l.notPrepared(p, n, err) })
		return
	}
	r, ok := l.takeOver(p, n, next)
	if !ok {
		l.discard(next)
		l.tell(func() { l.abandoned(p, n) })
		return
	}
	ctx, cancel := context.WithCancel(l.base)
	defer cancel()
	l.tell(func() { l.begun(p, n, r, cancel) })
	err = r.inner.Run(ctx, r.drain, func() {
		release()
		l.tell(func() { l.ran(p, r, "Started") })
	})
	l.tell(func() { l.ended(p, r, err) })
	close(r.ended)
}

// amend has the old run become the version of n. It returns false when that takes a new run.
func (l *Loop) amend(p *pipe, n *launch) bool {
	r := n.old
	amendment, err := r.inner.Amend(n.ctx, &n.declaration)
	if err != nil {
		if errors.Is(err, spec.ErrNeedsRestart) {
			return false
		}
		l.tell(func() { l.notPrepared(p, n, err) })
		return true
	}
	var begins bool
	l.tell(func() { begins = l.amending(p, n, r) })
	if !begins {
		l.discard(amendment)
		l.tell(func() { l.abandoned(p, n) })
		return true
	}
	inTime := func() bool { return true }
	if l.Policy.DrainTimeout > 0 {
		inTime = time.AfterFunc(l.Policy.DrainTimeout, r.cancel).Stop
	}
	err = amendment.Apply(func() {
		if inTime() {
			l.tell(func() { l.drained(p, n, r) })
		}
	})
	inTime()
	if err == nil {
		l.tell(func() { l.ran(p, r, "Amended") })
	}
	return true
}

// discard tears down what is not needed after all.
func (l *Loop) discard(of interface{ Discard(ctx context.Context) }) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.base), discardTimeout)
	defer cancel()
	of.Discard(ctx)
}

// takeOver drains the old run and waits for its end. It returns false when the new
// one was abandoned meanwhile.
func (l *Loop) takeOver(p *pipe, n *launch, next Run) (*run, bool) {
	if n.old != nil {
		l.tell(func() {
			if n.ctx.Err() == nil && p.run == n.old {
				l.stop(p, l.Policy.DrainTimeout)
			}
		})
		select {
		case <-n.old.ended:
		case <-n.ctx.Done():
		}
	}
	return &run{inner: next, version: n.version, drain: make(chan struct{}), ended: make(chan struct{})}, n.ctx.Err() == nil
}

// slot waits for a turn to start. Release gives it back, as does time.
func (l *Loop) slot(ctx context.Context) (release func(), ok bool) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-l.slots })
	timer := time.AfterFunc(slotTime, give)
	return func() { timer.Stop(); give() }, true
}

// stop asks the run of p to end, and cancels it when it has not after timeout; 0
// leaves it to others to lose patience.
func (l *Loop) stop(p *pipe, timeout time.Duration) {
	r := p.run
	if !r.stopping {
		r.stopping = true
		close(r.drain)
		l.update(p, func(s *spec.State) { s.Phase = spec.PhaseStopping })
	}
	if timeout > 0 && r.force == nil {
		r.force = time.AfterFunc(timeout, r.cancel)
	}
}
