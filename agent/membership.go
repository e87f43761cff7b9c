//go:build !minimal && !no_cluster

package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/api/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
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
		return rest.ClusterDisconnected, noticeText(v.Last)
	case v.Last.Reason != "":
		return rest.ClusterJoining, noticeText(v.Last)
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

// noticeText says what a notice is about.
func noticeText(n protocol.Notice) string {
	return strings.ReplaceAll(noticeTexts[n.Reason], "%s", cmp.Or(n.Other, "that had it"))
}

// noticeTexts are by reason; those about another member have a verb for its name.
var noticeTexts = map[protocol.Reason]string{
	protocol.Joined:       "this agent is a member of the cluster",
	protocol.SessionLost:  "its session ended, and other members may have its pipelines",
	protocol.NameTaken:    "another session has the name %s; if that is not its own of before, cluster.member must differ",
	protocol.Claimed:      "this member runs the pipeline",
	protocol.TookOver:     "this member runs the pipeline, which the member %s had that is gone",
	protocol.Released:     "this member gave the pipeline to others",
	protocol.Fenced:       "another member has the claim of the pipeline, so this one stopped it",
	protocol.RolledBack:   "the store of the cluster has older data than it acknowledged, so nothing is written over it; see the page on clusters",
	protocol.Differs:      "the member %s ran another version of the declaration, and this member leaves the pipeline alone for a while",
	protocol.NewerFormat:  "a newer version of conduit on the member %s wrote the claim, and this one leaves it alone",
	protocol.SelfStopped:  "the cluster's store was out of reach for too long, so this member stopped its strict pipelines",
	protocol.Disconnected: "the cluster's store is out of reach, and the pipeline, which is relaxed, goes on without acknowledging",
	protocol.Reconnected:  "the cluster's store answers again, and the pipeline still is this member's",
	protocol.Retiring:     "this member cleans up after the connectors of the pipeline, which no member has a file of",
	protocol.Withdrawn:    "this member has no file of the pipeline any more; claim and positions are kept for cluster.keep-deleted, or as long as another member has one",
	protocol.Deleted:      "no member had a file of the pipeline for cluster.keep-deleted: its claim and positions are deleted",
	protocol.Outdated:     "the pipeline was deleted from the cluster, and this member's file is taken for an old one: remove it, and add it again if the pipeline is to begin anew",
	protocol.Waiting:      "every member of the cluster that may run the pipeline has an instance of it, so this one waits for a further member",
	protocol.Unplaced:     "no member of the cluster that takes pipelines has the labels that the pipeline asks for",
}

// warned are the reasons of notices that people should see.
var warnedNotices = map[protocol.Reason]bool{
	protocol.SessionLost: true, protocol.NameTaken: true, protocol.TookOver: true, protocol.Fenced: true, protocol.RolledBack: true,
	protocol.NewerFormat: true, protocol.SelfStopped: true, protocol.Disconnected: true, protocol.Unplaced: true,
	protocol.Outdated: true,
}

// noticeLog saves notices as events, those of a while together.
type noticeLog struct {
	mu      sync.Mutex
	waiting []spec.Event // guarded by mu
	wake    notify.Signal
}

func (l *noticeLog) add(n protocol.Notice) {
	pipeline, number := protocol.InstanceOf(n.Pipeline)
	e := spec.Event{At: time.Now(), Pipeline: pipeline, Type: "normal", Reason: string(n.Reason), Message: noticeText(n)}
	if number > 1 {
		e.Message = fmt.Sprintf("instance %d: %s", number, e.Message)
	}
	if warnedNotices[n.Reason] {
		e.Type = "warning"
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, e)
	l.mu.Unlock()
	l.wake.Notify()
}

// run saves events until ctx ends.
func (l *noticeLog) run(ctx context.Context, a *Agent) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		events := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		if err := a.Store.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			a.options.Log.Warn("cannot save events of the cluster", "component", "cluster", "err", err)
		}
	}
}
