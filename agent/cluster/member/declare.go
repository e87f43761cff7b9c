package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
)

// declare passes the declared pipelines to the member after each change.
func (m *Member) declare(ctx context.Context) {
	m.declared.Notify()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.declared:
		}
		all, err := m.needs.Store.Declarations(ctx)
		if err != nil {
			m.needs.Log.Error("cannot read the declarations of the cluster, trying again", "component", "cluster",
				"err", err)
			time.AfterFunc(time.Second, m.declared.Notify)
			continue
		}
		m.share(ctx, all)
	}
}

// share passes the cluster's declarations to the member, and replans the pipelines whose terms changed for this agent.
func (m *Member) share(ctx context.Context, all []spec.Declaration) {
	placements := map[string]cluster.Placement{}
	known := protocol.Declared{Run: map[string]protocol.Declaration{}, Idle: map[string]bool{},
		Gone: map[string]protocol.Declaration{}}
	for i := range all {
		d := &all[i]
		t := cluster.PlacementOf(d)
		placements[d.Pipeline.ID] = t
		if t.Local() {
			known.Idle[d.Pipeline.ID] = d.Withdrawn.IsZero()
			continue
		}
		if m.apis.Taken(d.Pipeline.ID) {
			continue // it is not the cluster's pipeline with this id
		}
		m.applyOverride(ctx, d)
		if t.Runs = d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning; t.Runs { // may have changed
			known.Run[d.Pipeline.ID] = protocol.Declaration{Digest: d.Digest, Labels: t.Rules.Labels,
				Relaxed:   t.Mode == spec.ClusterRelaxed,
				Instances: t.Instances.Number(), Each: t.Instances == spec.EachMember}
		} else if d.Withdrawn.IsZero() {
			known.Idle[d.Pipeline.ID] = true
		} else {
			known.Gone[d.Pipeline.ID] = protocol.Declaration{Labels: t.Rules.Labels, Purge: d.Purge && cluster.IsShared(d)}
		}
	}
	forgotten := m.forget(ctx, known.Gone)
	m.mu.Lock()
	before, had := m.terms, m.forgotten
	m.terms, m.forgotten = placements, forgotten
	m.mu.Unlock()
	m.member.Declare(ctx, known)
	for id, t := range placements {
		if !t.Same(before[id], m.member.Self.Labels) || forgotten[id] != had[id] {
			_ = m.needs.Loop.Replan(ctx, id, false) // fails only when the agent ends
		}
	}
}

// forget deletes this agent's state of pipelines that were deleted from the cluster. It returns their ids.
func (m *Member) forget(ctx context.Context, gone map[string]protocol.Declaration) map[string]bool {
	forgotten := map[string]bool{}
	for id, w := range gone {
		claim := m.member.Claims(id)[0]
		if never := w.Purge && claim.Pipeline == "" && m.member.Joined(); !claim.Deleted && !never {
			continue
		}
		if err := m.shared.Forget(ctx, id); err != nil {
			m.needs.Log.Error("cannot remove a pipeline that was deleted from the cluster, trying again", "component",
				"cluster", "pipeline_id", id, "err", err)
			time.AfterFunc(time.Second, m.declared.Notify)
			continue
		}
		forgotten[id] = true
	}
	return forgotten
}

// applyOverride applies an override that a person set on another member.
func (m *Member) applyOverride(ctx context.Context, d *spec.Declaration) {
	o := m.member.Override(d.Pipeline.ID)
	if o.Pipeline == "" || o.Digest != d.Digest || o.Status == d.Want() || !d.Withdrawn.IsZero() {
		return
	}
	if err := m.needs.Store.SetOverride(ctx, d.Pipeline.ID, o.Status); err != nil && !errors.Is(err, spec.ErrNotFound) {
		m.needs.Log.Error("cannot apply a request that another member received, trying again", "component", "cluster",
			"pipeline_id", d.Pipeline.ID, "err", err)
		time.AfterFunc(time.Second, m.declared.Notify)
		return
	}
	if o.Status == d.Pipeline.Status {
		d.Override = ""
	} else {
		d.Override = o.Status
	}
}

// Problems returns the reasons why members of a cluster do not run a pipeline as it is declared.
func (m *Member) Problems(p *spec.Pipeline) []spec.Problem { return cluster.Problems(p) }

// termsOf returns the terms of a pipeline. A pipeline that is not declared yet is treated as one of the cluster's.
func (m *Member) termsOf(id string) cluster.Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.terms[id]
}

// pipelineOf returns the pipeline of a connector; ok is false if the pipeline does not belong to the cluster.
func (m *Member) pipelineOf(connectorID string) (pipeline string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, t := range m.terms {
		if !t.Local() && slices.Contains(t.Connectors, connectorID) {
			return id, true
		}
	}
	return "", false
}

// clustered reports whether a pipeline belongs to the cluster.
func (m *Member) clustered(id string) bool { return !m.termsOf(id).Local() }

// runsOnOtherMember reports whether this agent should not run a pipeline. A cluster pipeline that is withdrawn here may
// be declared on other members: its resources are not cleaned up until all members have deleted it, even while this
// agent still has the claim.
func (m *Member) runsOnOtherMember(id string, withdrawn bool) bool {
	if t := m.termsOf(id); t.Local() {
		return !t.Rules.Allow(m.member.Self.Labels)
	}
	m.mu.Lock()
	forgotten := m.forgotten[id] // it may then be deleted here, too
	m.mu.Unlock()
	return !forgotten && (withdrawn || !m.member.RunsHere(id))
}

// KeepsConnectors reports whether this member must leave the connectors of a cluster pipeline that it does not own to
// the next owner, or to the member that deletes the pipeline.
func (m *Member) KeepsConnectors(pipeline string) bool {
	return m.clustered(pipeline) && !m.member.RunsHere(pipeline)
}
