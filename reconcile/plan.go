package reconcile

import (
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Desired is what somebody wants of one pipeline. While Running.Newer it is a version that
// was declared before, with the status that is wanted now.
type Desired struct {
	spec.Declaration
	RunDigest string // of Pipeline: equal digests run alike
}

// Running is what is observed of one pipeline.
type Running struct {
	State     spec.State
	Run       *Version    // the run there is; nil when nothing runs
	Newer     bool        // another version is declared than the one that is desired
	Changes   []time.Time // when versions that were to run were taken up lately, oldest first
	Flapping  bool        // it was told that versions wait
	Stopping  bool        // Run was asked to end
	Amending  bool        // Run ends in order what another version replaces, to become that
	Patience  time.Time   // until when changes wait for an amended Run to have opened what is new
	Next      *Version    // being prepared, or waiting for Run to end; nil when nothing is
	Abandoned bool        // Next was given up and will soon be gone
	Refused   int64       // generation that failed and is not tried again by itself
	Again     Kind        // somebody asked for the version to take effect again: by Restart, or by Amend if that will do
	Confirm   time.Time   // when Run has proved itself; zero when it has, or need not
	Steady    time.Time   // when State.Failures no longer count
	Cleaning  []string    // connectors being cleaned up
	Deleting  bool        // the pipeline is being deleted
	NotBefore time.Time   // next attempt to delete the pipeline
}

// Version is a version of a pipeline that runs or is about to.
type Version struct {
	Generation int64
	Digest     string
	Pipeline   *spec.Pipeline // never modified
	Instead    int64          // the generation that failed and that this one stands in for, or 0
}

// Kind is what an Action does.
type Kind string

// The kinds of actions.
const (
	TakeUp       Kind = "take-up"       // desire the version that is declared
	Flap         Kind = "flap"          // tell that versions wait because there are too many
	Start        Kind = "start"         // prepare and run the declared version; nothing runs
	Restart      Kind = "restart"       // prepare the declared version, then drain what runs, then run it
	Amend        Kind = "amend"         // prepare what the declared version changes, then have what runs become it
	Rollback     Kind = "rollback"      // prepare and run the last good version; nothing runs
	Stop         Kind = "stop"          // drain what runs
	Abandon      Kind = "abandon"       // give up what is being prepared
	Adopt        Kind = "adopt"         // what runs is as good as the declared version
	Confirm      Kind = "confirm"       // what runs has proved itself
	MarkStopped  Kind = "mark-stopped"  // nothing runs, and that is how it should be
	MarkSteady   Kind = "mark-steady"   // it has run long enough for its failures to be forgotten
	MarkOrphaned Kind = "mark-orphaned" // the connector is declared no more
	CleanUp      Kind = "clean-up"      // delete the connector
	Delete       Kind = "delete"        // forget a withdrawn pipeline
	Forget       Kind = "forget"        // stop observing a pipeline that nobody knows
)

// Action is one thing to do about one pipeline.
type Action struct {
	Kind      Kind
	ID        string               // of the pipeline
	Connector *spec.ConnectorState // of MarkOrphaned and CleanUp
}

// Plan returns what to do now so that what runs becomes what is desired, and when to
// look again if nothing happens before, zero for never. It is pure.
func Plan(desired []Desired, running []Running, connectors []spec.ConnectorState, now time.Time, policy Policy) ([]Action, time.Time) {
	p := planner{now: now, policy: policy}
	observed := make(map[string]*Running, len(running))
	for i := range running {
		observed[running[i].State.PipelineID] = &running[i]
	}
	started := map[string][]spec.ConnectorState{}
	for _, c := range connectors {
		started[c.PipelineID] = append(started[c.PipelineID], c)
	}
	for i := range desired {
		d := &desired[i]
		r := observed[d.Pipeline.ID]
		if r == nil {
			r = &Running{}
		}
		delete(observed, d.Pipeline.ID)
		p.plan(d, r, started[d.Pipeline.ID])
	}
	for _, r := range running {
		if observed[r.State.PipelineID] != nil {
			p.unknown(&r)
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

func (p *planner) do(kind Kind, id string) { p.actions = append(p.actions, Action{Kind: kind, ID: id}) }

// wait reports whether t is still to come, and if so has the loop look again then.
func (p *planner) wait(t time.Time) bool {
	if !p.now.Before(t) {
		return false
	}
	if p.next.IsZero() || t.Before(p.next) {
		p.next = t
	}
	return true
}

func (p *planner) plan(d *Desired, r *Running, connectors []spec.ConnectorState) {
	if r.Newer && p.takesUp(d, r) {
		return
	}
	switch {
	case r.Next != nil:
		p.underway(d, r)
	case r.Run != nil && r.Stopping:
		// Its end will be noticed.
	case r.Run != nil:
		p.live(d, r)
		p.orphans(d, r, connectors)
	case !d.Withdrawn.IsZero():
		p.withdrawn(d, r, connectors)
	default:
		p.idle(d, r)
	}
}

// takesUp has the declared version taken up, unless too many were lately. What is not to
// run, or was asked to start anew, does not wait.
func (p *planner) takesUp(d *Desired, r *Running) bool {
	id := d.Pipeline.ID
	if wanted(d) && r.Again != Restart && p.wait(p.policy.room(r.Changes)) {
		if !r.Flapping {
			p.do(Flap, id)
		}
		return false
	}
	p.do(TakeUp, id)
	return true
}

func wanted(d *Desired) bool { return d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning }

// graceEnd is when a withdrawn pipeline has to stop.
func (p *planner) graceEnd(d *Desired) time.Time {
	if d.Purge {
		return d.Withdrawn
	}
	return d.Withdrawn.Add(p.policy.DeletionGrace)
}

// underway gives up a version on its way that is not the one to run any more.
func (p *planner) underway(d *Desired, r *Running) {
	obsolete := r.Next.Digest != d.RunDigest
	if r.Next.Instead != 0 {
		obsolete = r.Next.Instead != d.Generation
	}
	if (obsolete || !wanted(d)) && !r.Abandoned {
		p.do(Abandon, d.Pipeline.ID)
	}
}

// live compares what runs with what is declared.
func (p *planner) live(d *Desired, r *Running) {
	id := d.Pipeline.ID
	if r.State.Failures > 0 && r.State.Phase == spec.PhaseRunning && r.State.RetryAt == nil && !p.wait(r.Steady) {
		p.do(MarkSteady, id)
	}
	if !r.Confirm.IsZero() && !p.wait(r.Confirm) {
		p.do(Confirm, id)
	}
	switch {
	case !wanted(d):
		if d.Withdrawn.IsZero() || d.Want() != spec.StatusRunning || !p.wait(p.graceEnd(d)) {
			p.do(Stop, id)
		}
	case p.cleaning(d, r), r.Amending, p.wait(r.Patience):
	case r.Again == Amend && r.State.RunningGeneration != 0:
		p.do(Amend, id)
	case r.Again != "":
		p.do(Restart, id)
	case r.Run.Digest == d.RunDigest && (r.State.RetryAt == nil || edited(d, r)):
		if r.State.RunningGeneration != 0 && r.Run.Generation != d.Generation {
			p.do(Adopt, id)
		}
	case r.Refused == d.Generation || p.backingOff(d, r):
	case amends(d, r):
		p.do(Amend, id)
	default:
		p.do(Restart, id)
	}
}

// amends reports whether what runs can become the declared version while it goes on.
func amends(d *Desired, r *Running) bool {
	return r.State.RunningGeneration != 0 && spec.EffectOf(r.Run.Pipeline, &d.Pipeline).Severity() <= spec.EffectRestartDestination.Severity()
}

// idle starts a pipeline unless it has to wait or is not to run.
func (p *planner) idle(d *Desired, r *Running) {
	id := d.Pipeline.ID
	switch {
	case !wanted(d):
		if r.State.Phase != spec.PhaseStopped || !r.State.StoppedByUser {
			p.do(MarkStopped, id)
		}
	case r.Deleting || p.cleaning(d, r):
	case r.Again != "":
		p.do(Start, id)
	case r.State.Phase == spec.PhaseDegraded && !edited(d, r):
	case r.State.Phase == spec.PhaseRecovering && p.backingOff(d, r):
	case r.Refused == d.Generation && r.State.LastGood != nil:
		p.do(Rollback, id)
	default:
		p.do(Start, id)
	}
}

// unknown is about a pipeline that is neither declared nor withdrawn.
func (p *planner) unknown(r *Running) {
	id := r.State.PipelineID
	switch {
	case r.Next != nil && !r.Abandoned:
		p.do(Abandon, id)
	case r.Next != nil, r.Stopping, r.Deleting, len(r.Cleaning) > 0:
	case r.Run != nil:
		p.do(Stop, id)
	default:
		p.do(Forget, id)
	}
}

// edited reports whether the declaration is not the one that was tried last.
func edited(d *Desired, r *Running) bool {
	return r.State.LastAttempt == nil || r.State.LastAttempt.Generation != d.Generation
}

func (p *planner) backingOff(d *Desired, r *Running) bool {
	return !edited(d, r) && r.State.RetryAt != nil && p.wait(*r.State.RetryAt)
}

// cleaning reports whether a connector of the pipeline is being cleaned up: it must
// not start before that has ended.
func (p *planner) cleaning(d *Desired, r *Running) bool {
	return slices.ContainsFunc(r.Cleaning, func(id string) bool { return declares(d, id) })
}

func declares(d *Desired, qualified string) bool {
	id, ok := strings.CutPrefix(qualified, d.Pipeline.ID+":")
	return ok && slices.ContainsFunc(d.Pipeline.Connectors, func(c spec.Connector) bool { return c.ID == id })
}
