package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// VersionOutcome is the outcome of the versions of a pipeline that were tried. An agent that takes the pipeline over
// from another one continues from there.
type VersionOutcome struct {
	Good   *spec.LastGood // the last known good version; nil when there is none
	Failed *FailedVersion // the declared version, when Good runs in its place
}

// FailedVersion is a version that was started and failed during its probation.
type FailedVersion struct {
	RunDigest string // as Loop.RunDigest returns it
	spec.Attempt
}

// same reports whether t and o are equal.
func (t VersionOutcome) same(o VersionOutcome) bool {
	if t.Failed == nil || o.Failed == nil {
		return t.Good == o.Good && t.Failed == o.Failed
	}
	return t.Good == o.Good && *t.Failed == *o.Failed
}

// outcome returns the outcome for other agents. It leaves out a version that could not be prepared, or that failed
// because of this machine, as it may run on another machine.
func (p *pipelineState) outcome() VersionOutcome {
	t := VersionOutcome{Good: p.State.LastGood}
	a, d := p.State.LastAttempt, p.desired
	if a != nil && d != nil && a.Error != "" && a.Generation == d.Generation && p.Rejected == d.Generation &&
		!p.retriable && !p.loop.Policy.Hold {
		t.Failed = &FailedVersion{RunDigest: d.RunDigest, Attempt: *a}
	}
	return t
}

// report calls Loop.OnVersionOutcome if the outcome has changed.
func (p *pipelineState) report() {
	if p.loop.OnVersionOutcome == nil {
		return
	}
	if t := p.outcome(); !t.same(p.reported) {
		p.reported = t
		p.loop.OnVersionOutcome(p.State.PipelineID, t)
	}
}

// Inherit makes pipeline id, which does not run here, continue from the outcome on another agent. The last known good
// version of that agent becomes the one here. If the version that failed there is the declared one, the good version is
// started in its place, unless Policy.Hold is set. Without a good version nothing changes. Inherit returns when the
// request is recorded.
func (l *Loop) Inherit(ctx context.Context, id string, t VersionOutcome) error {
	err := l.Check(ctx) // the declaration was read
	if err == nil {
		err = l.mail.send(ctx, func() {
			if p := l.pipelines[id]; p != nil && t.Good != nil {
				p.inherit(t)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("cannot take over the last known good version of pipeline %q: %w", id, err)
	}
	return nil
}

func (p *pipelineState) inherit(t VersionOutcome) {
	p.touch()
	p.Rejected = 0
	d := p.desired
	if p.newer != nil {
		d = p.newer
	}
	failed := t.Failed != nil && d != nil && t.Failed.RunDigest == d.RunDigest && !p.loop.Policy.Hold
	p.update(func(s *spec.State) {
		s.LastGood = t.Good
		if failed {
			s.LastAttempt = &spec.Attempt{Generation: d.Generation, At: t.Failed.At, Error: t.Failed.Error}
		}
	})
	if !failed {
		return
	}
	p.Rejected, p.retriable = d.Generation, false
	p.event(spec.EventWarning, "UpdateFailed", fmt.Sprintf("generation %d failed at %s, starting the last known good "+
		"version: %s", d.Generation, t.Failed.At.UTC().Format(time.RFC3339), t.Failed.Error))
	p.log().Warn("this version already failed on another agent, starting the last known good version",
		"generation", d.Generation, "err", t.Failed.Error)
}
