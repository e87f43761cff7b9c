//go:build !minimal && !no_cluster

package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/notice"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/api/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/placement"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// viewTimeout bounds how long it may take to learn what the member knows. One whose store has
// not answered yet does not take part.
const viewTimeout = 2 * time.Second

// Placement returns where a pipeline runs, if it is to run, that another member of a cluster is to run.
func (o *observed) Placement(id string) *rest.Placement {
	if o.cluster == nil || !o.cluster.elsewhere(id, false) {
		return nil
	}
	if !o.cluster.clustered(id) {
		return &rest.Placement{} // this agent lacks a label
	}
	claims := o.cluster.member.Claims(id)
	owned := max(0, slices.IndexFunc(claims, func(c protocol.Claim) bool { return c.Owner != "" }))
	p := placementOf(claims[owned])
	p.Failed = o.cluster.failed(cmp.Or(claims[owned].Pipeline, id))
	return &p
}

// Instances returns those of a pipeline that is to have several, nil for one that has one.
func (o *observed) Instances(d *spec.Declaration) *rest.Instances {
	all := alone(d)
	if all == nil || o.cluster == nil || !o.cluster.clustered(d.Pipeline.ID) {
		return all
	}
	for _, c := range o.cluster.member.Claims(d.Pipeline.ID) {
		if c.Owner == "" {
			continue
		}
		_, number := protocol.InstanceOf(c.Pipeline)
		all.Running = append(all.Running, rest.InstancePlacement{Instance: number, Member: c.Owner, Since: c.Since, From: c.From})
	}
	if all.Message = ""; d.Want() == spec.StatusRunning && all.Declared != placement.Each && len(all.Running) < all.Declared.Number() {
		all.Message = "the rest waits for members that may run it and have no other instance of it"
	}
	return all
}

func placementOf(c protocol.Claim) rest.Placement {
	if c.Owner == "" {
		return rest.Placement{}
	}
	return rest.Placement{Member: c.Owner, Since: &c.Since, From: c.From}
}

// failed returns the declared version of the pipeline that a claim is of, if it failed and the last known good one runs in
// its place.
func (c *clustered) failed(claim string) *rest.FailedVersion {
	f := c.versions.Failed(context.Background(), claim)
	if f == nil {
		return nil
	}
	return &rest.FailedVersion{Generation: f.Generation, Member: f.Member, At: f.At, Error: f.Error}
}

// past are what was noticed of a claim before it had the owner that it has.
var past = map[protocol.Reason]bool{"": true, protocol.Released: true, protocol.Unplaced: true, protocol.Waiting: true}

// why returns why a pipeline runs where it does: what this agent noticed of it last, or else how its owner got it.
func why(c *protocol.ClaimView) protocol.Reason {
	switch {
	case c.Owner == "" || !past[c.Last.Reason]:
		return c.Last.Reason
	case c.From != "":
		return protocol.TookOver
	}
	return protocol.Claimed
}

// membership is a cluster as the API sees it.
type membership struct{ *clustered }

// membership returns this agent's part in a cluster, nil when it is alone.
func (a *Agent) membership() cluster.Member {
	if a.cluster == nil {
		return nil
	}
	return membership{a.cluster}
}

// Cluster returns what this agent knows of the cluster.
func (c membership) Cluster(ctx context.Context) (rest.Cluster, error) {
	body := rest.Cluster{Name: c.name, Member: c.member.Self.Agent, State: rest.ClusterJoining, Members: []rest.ClusterMember{}, Pipelines: []rest.ClusterPipeline{}}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v, err := c.member.View(ctx)
	if err != nil {
		body.Message = c.store.product + " has not answered yet"
		return body, nil
	}
	body.State, body.Message = stateOf(&v)
	runs, lags := map[string]int{}, c.lags(v.Members)
	for _, one := range v.Claims {
		runs[one.Owner]++
		id, number := protocol.InstanceOf(one.Pipeline)
		p := rest.ClusterPipeline{ID: id, Placement: placementOf(one.Claim), Epoch: one.Epoch, Digest: one.Digest, LagSeconds: one.Pending.Seconds(), Terms: c.declaredTerms(id)}
		p.Failed = c.failed(one.Pipeline)
		if p.LagSeconds == 0 && one.Owner != c.member.Self.Agent {
			p.LagSeconds = lags[one.Owner][one.Pipeline]
		}
		if p.Reason = string(why(&one)); number > 1 || c.termsOf(id).Instances.Several() {
			p.Instance = number
		}
		if number == 1 {
			p.DeadLetters = c.refused(id, "")
		}
		body.Pipelines = append(body.Pipelines, p)
	}
	body.Pipelines = append(body.Pipelines, c.local()...)
	sorting.StableBy(body.Pipelines, func(a, b rest.ClusterPipeline) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Instance, b.Instance))
	})
	for _, one := range v.Members {
		m := rest.ClusterMember{Name: one.Agent, Version: one.Version, Labels: one.Labels, Capacity: one.Capacity, State: "live",
			StartedAt: one.Started, SilentSeconds: one.Silent.Seconds(), Pipelines: runs[one.Agent]}
		m.Address, m.DeadLetters = c.reportedBy(one.Agent)
		switch {
		case one.Gone:
			m.State = "gone"
		case one.Draining:
			m.State = "draining"
		}
		body.Members = append(body.Members, m)
	}
	return body, nil
}

// Terms returns how a pipeline takes part in the cluster; nil for an agent that is alone.
func (o *observed) Terms(id string) *rest.ClusterTerms {
	if o.cluster == nil {
		return nil
	}
	return membership{o.cluster}.declaredTerms(id)
}

// local returns the pipelines that this agent runs without a claim.
func (c membership) local() (all []rest.ClusterPipeline) {
	c.mu.Lock()
	ids := slices.Collect(maps.Keys(c.terms))
	c.mu.Unlock()
	for _, id := range ids {
		if t := c.termsOf(id); t.Local() && t.Runs && !c.elsewhere(id, false) {
			all = append(all, rest.ClusterPipeline{ID: id, Placement: rest.Placement{Member: c.member.Self.Agent, Reason: "Local"}, Terms: c.declaredTerms(id), DeadLetters: c.refused(id, "")})
		}
	}
	return all
}

// declaredTerms returns what this agent's declaration of a pipeline says; nil without one.
func (c membership) declaredTerms(id string) *rest.ClusterTerms {
	t := c.termsOf(id)
	if t.Mode == "" {
		return nil
	}
	if c.apis.Taken(id) && !t.Local() {
		t.Reason = "the API of another member declared a pipeline of this id for the cluster, which this member leaves alone, and this one runs nowhere: choose another id"
	}
	return &rest.ClusterTerms{Mode: t.Mode, Reason: t.Reason, Labels: t.Rules.Labels, Eligible: t.Rules.Allow(c.member.Self.Labels), OnHost: t.Kept, Instances: t.Instances}
}

// stateOf says what this agent has to do with the cluster, and why it runs nothing of it.
func stateOf(v *protocol.View) (rest.ClusterState, string) {
	switch {
	case v.Draining && v.Held:
		return rest.ClusterDraining, ""
	case v.Draining:
		return rest.ClusterDrained, "it was drained, and takes no pipelines until it is resumed"
	case v.Held:
		return rest.ClusterJoined, ""
	case v.Last.Reason == protocol.SelfStopped || v.Last.Reason == protocol.SessionLost:
		return rest.ClusterDisconnected, notice.Text(v.Last)
	case v.Last.Reason != "":
		return rest.ClusterJoining, notice.Text(v.Last)
	}
	return rest.ClusterJoining, ""
}

// Drain gives this agent's pipelines to other members.
func (c membership) Drain(ctx context.Context) error { return c.member.Drain(ctx) }

// Resume takes pipelines again.
func (c membership) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	return c.member.Resume(ctx)
}
