//go:build !minimal

package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api/cluster"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// viewTimeout bounds how long it may take to learn what the member knows. One that NATS has not
// answered yet does not take part.
const viewTimeout = 2 * time.Second

// Placement returns where a pipeline runs, if it is to run, that another member of a cluster is to run.
func (o *observed) Placement(id string) *rest.Placement {
	if o.cluster == nil || !o.cluster.elsewhere(id) {
		return nil
	}
	if !o.cluster.clustered(id) {
		return &rest.Placement{} // this agent lacks a label
	}
	p := placementOf(o.cluster.member.Owner(id))
	return &p
}

func placementOf(c protocol.Claim) rest.Placement {
	if c.Owner == "" {
		return rest.Placement{}
	}
	return rest.Placement{Member: c.Owner, Since: &c.Since, From: c.From}
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
	body := rest.Cluster{Name: c.options.Cluster, Member: c.options.Name, State: rest.ClusterJoining, Members: []rest.ClusterMember{}, Pipelines: []rest.ClusterPipeline{}}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v, err := c.member.View(ctx)
	if err != nil {
		body.Message = "NATS has not answered yet"
		return body, nil
	}
	body.State, body.Message = stateOf(&v)
	runs := map[string]int{}
	for _, one := range v.Claims {
		runs[one.Owner]++
		p := rest.ClusterPipeline{ID: one.Pipeline, Placement: placementOf(one.Claim), Epoch: one.Epoch, Digest: one.Digest, LagSeconds: one.Pending.Seconds(), Terms: c.declaredTerms(one.Pipeline)}
		p.Reason = string(one.Last.Reason)
		body.Pipelines = append(body.Pipelines, p)
	}
	body.Pipelines = append(body.Pipelines, c.local()...)
	sorting.StableBy(body.Pipelines, func(a, b rest.ClusterPipeline) int { return cmp.Compare(a.ID, b.ID) })
	for _, one := range v.Members {
		m := rest.ClusterMember{Name: one.Agent, Version: one.Version, Labels: one.Labels, Capacity: one.Capacity, State: "live",
			StartedAt: one.Started, SilentSeconds: one.Silent.Seconds(), Pipelines: runs[one.Agent]}
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
		if t := c.termsOf(id); t.Local() && t.Runs && !c.elsewhere(id) {
			all = append(all, rest.ClusterPipeline{ID: id, Placement: rest.Placement{Member: c.options.Name, Reason: "Local"}, Terms: c.declaredTerms(id)})
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
	return &rest.ClusterTerms{Mode: t.Mode, Reason: t.Reason, Labels: t.Rules.Labels, Eligible: t.Rules.Allow(c.member.Self.Labels), OnHost: t.Kept}
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
	protocol.Unplaced:     "no member of the cluster that takes pipelines has the labels that the pipeline asks for",
}

// warned are the reasons of notices that people should see.
var warnedNotices = map[protocol.Reason]bool{
	protocol.SessionLost: true, protocol.NameTaken: true, protocol.TookOver: true, protocol.Fenced: true, protocol.RolledBack: true,
	protocol.NewerFormat: true, protocol.SelfStopped: true, protocol.Disconnected: true, protocol.Unplaced: true,
}

// noticeLog saves notices as events, those of a while together.
type noticeLog struct {
	mu      sync.Mutex
	waiting []spec.Event // guarded by mu
	wake    notify.Signal
}

func (l *noticeLog) add(n protocol.Notice) {
	e := spec.Event{At: time.Now(), Pipeline: n.Pipeline, Type: "normal", Reason: string(n.Reason), Message: noticeText(n)}
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

// clusterStats returns what is counted of the cluster, for metrics.
func (c *clustered) clusterStats() telemetry.Cluster {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	s := c.member.Stats(ctx)
	notices := map[string]uint64{}
	for reason, n := range s.Notices {
		notices[string(reason)] = n
	}
	return telemetry.Cluster{Members: s.Members, Pipelines: s.Pipelines, Lag: s.Lag, Notices: notices}
}
