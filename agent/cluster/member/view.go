package member

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/spec"
)

// viewTimeout bounds the time to query the member. A member whose store has not responded yet does not take part.
const viewTimeout = 2 * time.Second

// Assignment returns where a pipeline runs, if another member of the cluster should run it; otherwise nil.
func (m *Member) Assignment(id string) *spec.Assignment {
	if !m.runsOnOtherMember(id, false) {
		return nil
	}
	if !m.clustered(id) {
		return &spec.Assignment{} // this agent lacks a label
	}
	claims := m.member.Claims(id)
	owned := max(0, slices.IndexFunc(claims, func(c protocol.Claim) bool { return c.Owner != "" }))
	p := assignmentOf(claims[owned])
	p.Failed = m.failed(cmp.Or(claims[owned].Pipeline, id))
	return &p
}

// Unplaced reports whether a pipeline belongs to the cluster but no member has it.
func (m *Member) Unplaced(id string) bool {
	if !m.runsOnOtherMember(id, false) || !m.clustered(id) {
		return false
	}
	return !slices.ContainsFunc(m.member.Claims(id), func(c protocol.Claim) bool { return c.Owner != "" })
}

// Instances returns the instances of a pipeline that declares several, or nil if it declares one.
func (m *Member) Instances(d *spec.Declaration) *spec.RunningInstances {
	all := clustering.RunsOnce(d)
	if all == nil || !m.clustered(d.Pipeline.ID) {
		return all
	}
	for _, c := range m.member.Claims(d.Pipeline.ID) {
		if c.Owner == "" {
			continue
		}
		_, number := protocol.InstanceOf(c.Pipeline)
		all.Running = append(all.Running, spec.InstanceAssignment{Instance: number, Member: c.Owner, Since: c.Since,
			From: c.From})
	}
	if all.Message = ""; d.Want() == spec.StatusRunning && all.Declared != spec.EachMember &&
		len(all.Running) < all.Declared.Number() {
		all.Message = "the other instances wait for members that may run them and have no instance yet"
	}
	return all
}

func assignmentOf(c protocol.Claim) spec.Assignment {
	if c.Owner == "" {
		return spec.Assignment{}
	}
	return spec.Assignment{Member: c.Owner, Since: &c.Since, From: c.From}
}

// failed returns the declared version of a claim's pipeline, if that version failed and the last known good one runs in
// its place.
func (m *Member) failed(claim string) *spec.FailedVersion {
	f := m.versions.Failed(context.Background(), claim)
	if f == nil {
		return nil
	}
	return &spec.FailedVersion{Generation: f.Generation, Member: f.Member, At: f.At, Error: f.Error}
}

// past holds the reasons of notices that precede the present owner of a claim.
var past = map[protocol.Reason]bool{"": true, protocol.Released: true, protocol.Unplaced: true, protocol.Waiting: true}

// why returns the reason for the placement of a pipeline: the last notice of this agent about it, or else how the owner
// got the claim.
func why(c *protocol.ClaimView) protocol.Reason {
	switch {
	case c.Owner == "" || !past[c.Last.Reason]:
		return c.Last.Reason
	case c.From != "":
		return protocol.TookOver
	}
	return protocol.Claimed
}

// Cluster returns this agent's view of the cluster.
func (m *Member) Cluster(ctx context.Context) (spec.Cluster, error) {
	body := spec.Cluster{Name: m.needs.Settings.Name, Member: m.member.Self.Agent, State: spec.MembershipJoining,
		Members: []spec.ClusterMember{}, Pipelines: []spec.ClusterPipeline{}}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	seen, err := m.member.View(ctx)
	if err != nil {
		body.Message = m.claims.product + " has not responded yet"
		return body, nil
	}
	body.State, body.Message = stateOf(&seen)
	reports, counts := m.reports.All(), m.deadLetterCounts()
	runs, lags := map[string]int{}, lagsOf(reports, seen.Members)
	for _, one := range seen.Claims {
		runs[one.Owner]++
		id, number := protocol.InstanceOf(one.Pipeline)
		p := spec.ClusterPipeline{ID: id, Assignment: assignmentOf(one.Claim), Epoch: one.Epoch, Digest: one.Digest,
			LagSeconds: one.Pending.Seconds(), Terms: m.declaredTerms(id)}
		p.Failed = m.failed(one.Pipeline)
		if p.LagSeconds == 0 && one.Owner != m.member.Self.Agent {
			p.LagSeconds = lags[one.Owner][one.Pipeline]
		}
		p.Held = p.Terms != nil && p.Terms.Mode == spec.ClusterStrict &&
			p.LagSeconds >= m.member.Timing.Overdue.Seconds()
		if p.Reason = string(why(&one)); number > 1 || m.termsOf(id).Instances.Several() {
			p.Instance = number
		}
		counts.show(&p)
		body.Pipelines = append(body.Pipelines, p)
	}
	body.Pipelines = append(body.Pipelines, m.local(counts)...)
	body.Pipelines = append(body.Pipelines, counts.rest(m.declaredTerms)...)
	slices.SortStableFunc(body.Pipelines, func(a, b spec.ClusterPipeline) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Instance, b.Instance))
	})
	for _, one := range seen.Members {
		member := spec.ClusterMember{Name: one.Agent, Version: one.Version, Labels: one.Labels, Capacity: one.Capacity,
			State:     "live",
			StartedAt: one.Started, SilentSeconds: one.Silent.Seconds(), Pipelines: runs[one.Agent]}
		member.Address, member.DeadLetters = reportedBy(reports, one.Agent)
		switch {
		case one.Gone:
			member.State = "gone"
		case one.Draining:
			member.State = "draining"
		}
		body.Members = append(body.Members, member)
	}
	return body, nil
}

// DeadLettersElsewhere returns the numbers of dead letters of a pipeline on other members of the cluster.
func (m *Member) DeadLettersElsewhere(id string) []spec.MemberDeadLetters {
	return onDisks(m.reports.All(), id, m.member.Self.Agent)
}

// Terms returns how a pipeline takes part in the cluster.
func (m *Member) Terms(id string) *spec.EffectiveTerms {
	return m.declaredTerms(id)
}

// local returns the pipelines that this agent runs without a claim.
func (m *Member) local(counts *deadLetterCounts) (all []spec.ClusterPipeline) {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.terms))
	m.mu.Unlock()
	for _, id := range ids {
		if t := m.termsOf(id); t.Local() && t.Runs && !m.runsOnOtherMember(id, false) {
			p := spec.ClusterPipeline{ID: id, Assignment: spec.Assignment{Member: m.member.Self.Agent, Reason: "Local"},
				Terms: m.declaredTerms(id)}
			counts.show(&p)
			all = append(all, p)
		}
	}
	return all
}

// declaredTerms returns the terms in this agent's declaration of a pipeline, or nil if it has none.
func (m *Member) declaredTerms(id string) *spec.EffectiveTerms {
	t := m.termsOf(id)
	if t.Mode == "" {
		return nil
	}
	if m.apis.Taken(id) && !t.Local() {
		t.Reason = "the API of another member declared a pipeline of this id for the cluster, so this one runs " +
			"nowhere, and this member does not run the other: choose another id"
	}
	return &spec.EffectiveTerms{Mode: t.Mode, Reason: t.Reason, Labels: t.Rules.Labels,
		Eligible: t.Rules.Allow(m.member.Self.Labels), OnHost: t.Kept, Instances: t.Instances}
}

// stateOf returns this agent's state in the cluster, and the reason if it runs no pipeline of the cluster.
func stateOf(v *protocol.View) (spec.MembershipState, string) {
	switch {
	case v.Draining && v.Held:
		return spec.MembershipDraining, ""
	case v.Draining:
		return spec.MembershipDrained, "it is drained, and takes no pipelines until it is resumed"
	case v.Held:
		return spec.MembershipJoined, ""
	case v.Last.Reason == protocol.SelfStopped || v.Last.Reason == protocol.SessionLost:
		return spec.MembershipDisconnected, cluster.NoticeText(v.Last)
	case v.Last.Reason != "":
		return spec.MembershipJoining, cluster.NoticeText(v.Last)
	}
	return spec.MembershipJoining, ""
}

// Drain hands this agent's pipelines to other members, and accepts no more. It returns when none is left, or with an
// error when ctx ends first.
func (m *Member) Drain(ctx context.Context) error { return m.member.Drain(ctx) }

// Resume accepts pipelines again after Drain.
func (m *Member) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	return m.member.Resume(ctx)
}
