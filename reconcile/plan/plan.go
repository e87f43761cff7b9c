// Package plan compares the desired state of pipelines with their observed state and returns the actions that resolve
// the difference. It is pure: the time is an argument, and nothing is started or stopped here.
package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Desired is the desired state of a pipeline. While Observed.Newer is set, it is a version that was declared before,
// with the current desired status.
type Desired struct {
	spec.Declaration
	RunDigest      string // of Pipeline: versions with equal digests run alike
	OwnedElsewhere bool   // another agent has to run it
}

// Observed is the observed state of a pipeline.
type Observed struct {
	State     spec.State
	Run       *Version    // the current run; nil when nothing runs
	Newer     bool        // the declared version is newer than the desired one
	Changes   []time.Time // when running versions were taken up lately, oldest first
	Flapping  bool        // it was reported that versions wait
	Stopping  bool        // Run was asked to end
	Amending  bool        // the replaced part of Run is ending in order, as Run becomes another version
	OpensBy   time.Time   // until when changes wait for an amended Run to open its new connectors
	Next      *Version    // being prepared, or waiting for Run to end; nil for none
	Abandoned bool        // Next was given up and will soon be gone
	Rejected  int64       // generation that failed and is not retried automatically
	Again     Kind        // the version should be applied again: by Restart, or by Amend if that is enough
	Probation time.Time   // end of Run's probation; zero when it has none
	Steady    time.Time   // when State.Failures no longer count
	Cleaning  []string    // connectors being cleaned up
	Deleting  bool        // the pipeline is being deleted
	NotBefore time.Time   // next attempt to delete the pipeline
}

// Version is a version of a pipeline that runs or is about to run.
type Version struct {
	Generation int64
	Digest     string
	Pipeline   *spec.Pipeline // never modified
	Instead    int64          // the failed generation that this one replaces, or 0
}

// Kind is the kind of an Action.
type Kind string

// The kinds of actions.
const (
	TakeUp       Kind = "take-up"       // make the declared version the desired one
	Flap         Kind = "flap"          // report that versions wait because there are too many
	Start        Kind = "start"         // prepare and run the declared version; nothing runs
	Restart      Kind = "restart"       // prepare the declared version, then drain the run, then run the version
	Amend        Kind = "amend"         // prepare the changes of the declared version, then apply them to the run
	Rollback     Kind = "rollback"      // prepare and run the last known good version; nothing runs
	Stop         Kind = "stop"          // drain the run
	Abandon      Kind = "abandon"       // give up the version that is being prepared
	Adopt        Kind = "adopt"         // the run is as good as the declared version
	Confirm      Kind = "confirm"       // the probation of the run is over: its version is the last known good one
	MarkStopped  Kind = "mark-stopped"  // nothing runs, as desired
	MarkAway     Kind = "mark-away"     // nothing runs, because another agent has to run it
	MarkSteady   Kind = "mark-steady"   // it has run long enough for its failures to be forgotten
	MarkOrphaned Kind = "mark-orphaned" // the connector is no longer declared
	CleanUp      Kind = "clean-up"      // delete the connector
	Delete       Kind = "delete"        // forget a withdrawn pipeline
	Forget       Kind = "forget"        // stop observing a pipeline that is not declared
)

// Action is an action on a pipeline.
type Action struct {
	Kind      Kind
	ID        string               // of the pipeline
	Connector *spec.ConnectorState // of MarkOrphaned and CleanUp
	Reason    string               // why, for people
}

// Actions returns the actions that make the observed state match the desired state now, and the time to plan again if
// nothing happens before, zero for never. It is pure.
func Actions(
	desired []Desired, observed []Observed, connectors []spec.ConnectorState, now time.Time, policy Policy,
) ([]Action, time.Time) {
	p := planner{now: now, policy: policy}
	byID := make(map[string]*Observed, len(observed))
	for i := range observed {
		byID[observed[i].State.PipelineID] = &observed[i]
	}
	started := map[string][]spec.ConnectorState{}
	for _, c := range connectors {
		started[c.PipelineID] = append(started[c.PipelineID], c)
	}
	for i := range desired {
		d := &desired[i]
		o := byID[d.Pipeline.ID]
		if o == nil {
			o = &Observed{}
		}
		delete(byID, d.Pipeline.ID)
		p.plan(d, o, started[d.Pipeline.ID])
	}
	for i := range observed {
		if byID[observed[i].State.PipelineID] != nil {
			p.undeclared(&observed[i])
		}
	}
	return p.actions, p.next
}

type planner struct {
	now     time.Time
	policy  Policy
	actions []Action
	next    time.Time
}

func (p *planner) do(kind Kind, id, reason string) {
	p.actions = append(p.actions, Action{Kind: kind, ID: id, Reason: reason})
}

// before reports whether t is in the future. If so, the loop plans again at t.
func (p *planner) before(t time.Time) bool {
	if !p.now.Before(t) {
		return false
	}
	if p.next.IsZero() || t.Before(p.next) {
		p.next = t
	}
	return true
}

func (p *planner) plan(d *Desired, o *Observed, connectors []spec.ConnectorState) {
	if o.Newer && p.takesUp(d, o) {
		return
	}
	switch {
	case o.Next != nil:
		p.preparing(d, o)
	case o.Run != nil && o.Stopping:
		// The end of the run causes the next plan.
	case o.Run != nil:
		p.running(d, o)
		p.orphans(d, o, connectors)
	case !d.Withdrawn.IsZero():
		p.withdrawn(d, o, connectors)
	default:
		p.idle(d, o)
	}
}

// takesUp takes up the declared version, unless too many versions were taken up lately. A version that is not wanted,
// and a requested restart, do not wait.
func (p *planner) takesUp(d *Desired, o *Observed) bool {
	id := d.Pipeline.ID
	if d.ShouldRun() && o.Again != Restart && p.before(p.policy.nextChange(o.Changes)) {
		if !o.Flapping {
			p.do(Flap, id, fmt.Sprintf("%d versions were applied within %v", len(o.Changes), p.policy.ChangesWindow))
		}
		return false
	}
	p.do(TakeUp, id, "the declaration changed")
	return true
}

// ShouldRun reports whether the pipeline should run.
func (d *Desired) ShouldRun() bool {
	return d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning && !d.OwnedElsewhere
}

// unwanted says why the pipeline should not run.
func unwanted(d *Desired) string {
	switch {
	case d.Purge:
		return "the pipeline is being deleted"
	case !d.Withdrawn.IsZero():
		return "the pipeline was withdrawn"
	case d.OwnedElsewhere && d.Want() == spec.StatusRunning:
		return "another member of the cluster should run the pipeline"
	case d.Override != "":
		return "the pipeline was stopped through the API"
	}
	return "the declared status is stopped"
}

// graceEnd returns the time when a withdrawn pipeline has to stop.
func (p *planner) graceEnd(d *Desired) time.Time {
	if d.Purge {
		return d.Withdrawn
	}
	return d.Withdrawn.Add(p.policy.DeletionGrace)
}

// preparing abandons a version in preparation that is no longer desired.
func (p *planner) preparing(d *Desired, o *Observed) {
	if o.Abandoned {
		return
	}
	obsolete := o.Next.Digest != d.RunDigest
	if o.Next.Instead != 0 {
		obsolete = o.Next.Instead != d.Generation
	}
	switch {
	case !d.ShouldRun():
		p.do(Abandon, d.Pipeline.ID, unwanted(d))
	case obsolete:
		p.do(Abandon, d.Pipeline.ID, "the declaration changed while this version was being prepared")
	}
}

// running compares the running version with the declared one.
func (p *planner) running(d *Desired, o *Observed) {
	id := d.Pipeline.ID
	if o.State.Failures > 0 && o.State.Phase == spec.PhaseRunning && o.State.RetryAt == nil && !p.before(o.Steady) {
		p.do(MarkSteady, id, "the pipeline has run long enough to reset its failure count")
	}
	if !o.Probation.IsZero() && !p.before(o.Probation) {
		p.do(Confirm, id, "the probation has ended")
	}
	switch {
	case !d.ShouldRun():
		if d.Withdrawn.IsZero() || d.OwnedElsewhere || d.Want() != spec.StatusRunning || !p.before(p.graceEnd(d)) {
			p.do(Stop, id, unwanted(d))
		}
	case p.cleaning(d, o), o.Amending, p.before(o.OpensBy):
	case o.Again == Amend && o.State.RunningGeneration != 0:
		p.do(Amend, id, "a re-apply was requested")
	case o.Again != "":
		p.do(Restart, id, "a restart was requested")
	case o.Run.Digest == d.RunDigest && (o.State.RetryAt == nil || edited(d, o)):
		if o.State.RunningGeneration != 0 && o.Run.Generation != d.Generation {
			p.do(Adopt, id,
				fmt.Sprintf("generation %d has no effect on the running generation %d", d.Generation, o.Run.Generation))
		}
	case o.Rejected == d.Generation || p.backingOff(d, o):
	case amends(d, o):
		p.do(Amend, id, differs(d, o)+"; no restart is needed")
	default:
		p.do(Restart, id, differs(d, o))
	}
}

// differs says that the running version is not the declared one.
func differs(d *Desired, o *Observed) string {
	return fmt.Sprintf("generation %d is declared, but generation %d is running", d.Generation, o.Run.Generation)
}

// amends reports whether the run can become the declared version without ending.
func amends(d *Desired, o *Observed) bool {
	return o.State.RunningGeneration != 0 &&
		spec.EffectOf(o.Run.Pipeline, &d.Pipeline).Severity() <= spec.EffectRestartDestination.Severity()
}

// idle starts a pipeline unless it has to wait or should not run.
func (p *planner) idle(d *Desired, o *Observed) {
	id := d.Pipeline.ID
	switch {
	case d.OwnedElsewhere && d.Want() == spec.StatusRunning:
		if o.State.Phase != spec.PhaseStopped || o.State.StoppedByUser {
			p.do(MarkAway, id, unwanted(d))
		}
	case !d.ShouldRun():
		if o.State.Phase != spec.PhaseStopped || !o.State.StoppedByUser {
			p.do(MarkStopped, id, unwanted(d))
		}
	case o.Deleting || p.cleaning(d, o):
	case o.Again != "":
		p.do(Start, id, "a restart was requested")
	case o.State.Phase == spec.PhaseDegraded && !edited(d, o):
	case o.State.Phase == spec.PhaseRecovering && p.backingOff(d, o):
	case o.Rejected == d.Generation && o.State.LastGood != nil && !p.policy.Hold:
		p.do(Rollback, id, fmt.Sprintf("generation %d failed", d.Generation))
	case o.State.Phase == spec.PhaseRecovering && !edited(d, o):
		p.do(Start, id, fmt.Sprintf("the backoff after %d failures has ended", o.State.Failures))
	default:
		p.do(Start, id, fmt.Sprintf("generation %d is declared, but nothing is running", d.Generation))
	}
}

// undeclared handles a pipeline that is neither declared nor withdrawn.
func (p *planner) undeclared(o *Observed) {
	id, reason := o.State.PipelineID, "the pipeline is not declared"
	switch {
	case o.Next != nil && !o.Abandoned:
		p.do(Abandon, id, reason)
	case o.Next != nil, o.Stopping, o.Deleting, len(o.Cleaning) > 0:
	case o.Run != nil:
		p.do(Stop, id, reason)
	default:
		p.do(Forget, id, reason)
	}
}

// edited reports whether the declaration differs from the version that was tried last.
func edited(d *Desired, o *Observed) bool {
	return o.State.LastAttempt == nil || o.State.LastAttempt.Generation != d.Generation
}

func (p *planner) backingOff(d *Desired, o *Observed) bool {
	return !edited(d, o) && o.State.RetryAt != nil && p.before(*o.State.RetryAt)
}

// cleaning reports whether a connector of the pipeline is being cleaned up. It must not start before that has ended.
func (p *planner) cleaning(d *Desired, o *Observed) bool {
	return slices.ContainsFunc(o.Cleaning, func(id string) bool { return declares(d, id) })
}

func declares(d *Desired, qualified string) bool {
	id, ok := strings.CutPrefix(qualified, d.Pipeline.ID+":")
	return ok && slices.ContainsFunc(d.Pipeline.Connectors, func(c spec.Connector) bool { return c.ID == id })
}
