//go:build !minimal && !no_cluster

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/declared"
	"github.com/conduit-agent/conduit/agent/cluster/letters"
	"github.com/conduit-agent/conduit/agent/cluster/notice"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/cluster/schemas"
	"github.com/conduit-agent/conduit/agent/cluster/terms"
	"github.com/conduit-agent/conduit/agent/cluster/versions"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/placement"
)

// leaveTimeout bounds how long an agent that ends waits for its claims to be given up. After
// that other members wait for its session to expire.
const leaveTimeout = 5 * time.Second

// overrideTimeout bounds how long it may take to publish an override to the other members.
const overrideTimeout = 10 * time.Second

// clustered is what an agent that is a member of a cluster has in addition to the others.
type clustered struct {
	member   *cluster.Member
	shared   *cluster.Shared
	store    claimStore
	name     string // of the cluster
	log      *slog.Logger
	declared notify.Signal // the declarations changed
	ended    atomic.Bool   // no pipeline runs any more
	notices  *notice.Log
	apis     *declared.Share
	reports  *cluster.Reports
	versions *versions.Share
	letters  *letters.Share

	mu        sync.Mutex
	terms     map[string]terms.Terms // guarded by mu: of what is declared, by pipeline
	forgotten map[string]bool        // guarded by mu: pipelines that were deleted, of which this agent has nothing but the declaration
}

// wireCluster makes the agent a member of the cluster that the settings name, if they do.
func (a *Agent) wireCluster() error {
	c := a.options.Config.Cluster
	if c.Name == "" {
		return nil
	}
	name, err := memberName(c)
	if err != nil {
		return err
	}
	labels, err := terms.ParseLabels(c.Labels)
	if err != nil {
		return err
	}
	s, err := openClaims(c, name, a.options.Log)
	if err != nil {
		return err
	}
	reports := &cluster.Reports{Store: s}
	m := &cluster.Member{
		Store:  s,
		Self:   protocol.Session{Agent: name, Version: a.options.Version, Labels: labels, Capacity: float64(c.Capacity), Started: time.Now()},
		Timing: protocol.TimingOf(c.TTL),
		Log:    a.options.Log,
	}
	m.Timing.Retire = c.Keep
	apis := &declared.Share{Member: m, Store: a.Store, Log: a.options.Log}
	tried := &versions.Share{Member: name, Store: s, Local: a.Store, Loop: a.Loop, Log: a.options.Log, Owner: ownerOf(m)}
	refused := &letters.Share{Local: a.deadLetters, Member: name, Store: s, Log: a.options.Log, Owner: ownerOf(m)}
	m.Notes, a.Loop.Tried = []cluster.Noter{reports, tried, apis, refused}, tried.Tried
	m.Dropped = refused.Deleted
	shared := &cluster.Shared{Local: a.Store, Member: m}
	a.cluster = &clustered{member: m, shared: shared, store: s, name: c.Name, log: a.options.Log, declared: notify.NewSignal(), notices: &notice.Log{Apply: a.Store.Apply, Log: a.options.Log}, reports: reports, versions: tried, apis: apis, letters: refused}
	shared.Clustered, apis.Changed = a.cluster.clustered, a.cluster.declared.Notify
	if r, ok := a.schemas.Registry.(*schemas.Registry); ok {
		r.Store, r.Shared = s, a.cluster.sharesSubject
	}
	a.metrics.Cluster = a.cluster.clusterStats
	refused.Clustered, refused.Replicas = a.cluster.clustered, shared
	a.letters, a.replays.DeadLetters, a.Runner.Keep = refused, letters.Replayed{Share: refused}, refused.Keep
	a.metrics.DeadLetters = totalsOf(refused.TotalsHere, a.deadLetters, a.options.Log)
	a.Runner.Store, a.Committer.Replicas = shared, refused
	a.Runner.Instance, a.Runner.Epoch = m.Instance, m.Epoch
	a.Loop.Store = loopStore{a.Store, shared}
	a.Loop.Elsewhere = a.cluster.elsewhere
	parse := a.Files.Parse
	a.Files.Parse = func(path string, data []byte) spec.File { return terms.InFile(path, parse(path, data)) }
	return nil
}

// ownerOf returns a function that returns the claim of a pipeline that a member has, and its epoch.
func ownerOf(m *cluster.Member) func(pipeline string) (claim string, epoch uint64, ok bool) {
	return func(pipeline string) (string, uint64, bool) {
		epoch, ok := m.Epoch(pipeline)
		return protocol.InstanceID(pipeline, m.Instance(pipeline)), epoch, ok
	}
}

// problems returns why members of a cluster do not run a pipeline as it is declared; none for an agent that is alone.
func (c *clustered) problems(p *spec.Pipeline) []spec.Problem {
	if c == nil {
		return nil
	}
	return terms.Problems(p)
}

// sharedSchemas returns the schemas that all members of a cluster share, the agent's own when it is alone.
// wireCluster completes it.
func sharedSchemas(c config.Cluster, own schema.IDRegistry) schema.Registry {
	if c.Name == "" {
		return own
	}
	return &schemas.Registry{Local: own, Cluster: c.Name}
}

// sharesSubject reports whether a schema is the cluster's: those of connectors of local pipelines stay with
// this agent.
func (c *clustered) sharesSubject(subject string) bool {
	pipeline, _, of := strings.Cut(subject, ":")
	return !of || c.clustered(pipeline)
}

// loopStore is the store of a loop in a cluster: what it notes of connectors is shared.
type loopStore struct {
	reconcile.Store
	shared *cluster.Shared
}

// SaveConnectorState implements reconcile.Store.
func (s loopStore) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	return s.shared.SaveConnectorState(ctx, c)
}

// DeleteConnector implements reconcile.Store.
func (s loopStore) DeleteConnector(ctx context.Context, id string) error {
	return s.shared.DeleteConnector(ctx, id)
}

func memberName(c config.Cluster) (string, error) {
	host, err := os.Hostname()
	if name := cmp.Or(c.Member, host); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("cannot name this member of the cluster: cluster.member is not set, and the host has no name: %w", err)
}

// changed takes that the declarations may have changed. An agent that is alone has no member to notify.
func (c *clustered) changed() {
	if c != nil {
		c.apis.Recheck()
		c.declared.Notify()
	}
}

// run takes part in the cluster until ctx ends. When ending is done the pipelines of the agent end.
func (c *clustered) run(ctx, ending context.Context, a *Agent) error {
	replan := func(id string, cut bool) {
		go func() { _ = a.Loop.Replan(ctx, id, cut) }() // fails when the agent ends, which ends all
	}
	c.member.Adopt = c.shared.Adopt
	c.member.Inherit = c.inherit(ending)
	c.member.Retire = func(ctx context.Context, id string) error {
		return c.shared.Retire(ctx, id, a.Runner.Delete, a.Loop.Policy.Delay)
	}
	c.member.Placed = func(id string) { replan(id, false) }
	c.member.Lost = func(id string) { replan(id, true) }
	c.member.Idle = func(ctx context.Context, id string) bool {
		if c.ended.Load() {
			return true
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second) // the loop may end
		defer cancel()
		if !c.clustered(id) {
			return true // it is this agent's alone by now, and its run goes on without the claim
		}
		idle, err := a.Loop.Idle(ctx, id)
		return idle && err == nil
	}
	c.member.Happened = c.notices.Add
	defer context.AfterFunc(ending, c.member.End)()
	c.member.Asked = c.changed
	c.member.Deleted = func(string) { c.changed() }
	c.member.Moved = func(string) { a.changes.Notify() }
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { c.declare(ctx, a) }) // what stays with this agent does not wait for the store
	background.Go(func() { c.notices.Run(ctx) })
	background.Go(func() { c.apis.Run(ctx) })
	background.Go(func() { c.versions.Run(ctx) })
	background.Go(func() { c.letters.Run(ctx) })
	if err := c.ready(ctx); err != nil {
		return err
	}

	background.Go(func() { c.report(ctx, a) })
	return c.member.Run(ctx)
}

// inherit returns a function that has a pipeline go on from what its last owner tried. Nothing is started any more once
// ending is done.
func (c *clustered) inherit(ending context.Context) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ending, cancel)()
		if err := c.versions.Inherit(ctx, id); err != nil && ending.Err() == nil {
			return err
		}
		return nil
	}
}

// ready waits until the store can keep claims.
func (c *clustered) ready(ctx context.Context) error {
	reach := notify.Throttle{Fails: "cannot use " + c.store.product + " for the cluster, trying again", Recovered: c.store.product + " is ready for the cluster"}
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := c.store.ready(try)
		cancel()
		if ctx.Err() != nil {
			break
		}
		reach.Observe(c.log.With("component", "cluster"), err)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// declare keeps the member informed of what there is to run.
func (c *clustered) declare(ctx context.Context, a *Agent) {
	c.declared.Notify()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.declared:
		}
		all, err := a.Store.Declarations(ctx)
		if err != nil {
			a.options.Log.Error("cannot read what is declared for the cluster, trying again", "component", "cluster", "err", err)
			time.AfterFunc(time.Second, c.declared.Notify)
			continue
		}
		c.share(ctx, a, all)
	}
}

// share has the cluster run what is declared, as far as that is the cluster's, and this agent
// what is not.
func (c *clustered) share(ctx context.Context, a *Agent, all []spec.Declaration) {
	of := map[string]terms.Terms{}
	known := protocol.Declared{Wanted: map[string]protocol.Wanted{}, Idle: map[string]bool{}, Gone: map[string]protocol.Wanted{}}
	for i := range all {
		d := &all[i]
		t := terms.Of(d)
		of[d.Pipeline.ID] = t
		if t.Local() {
			known.Idle[d.Pipeline.ID] = d.Withdrawn.IsZero()
			continue
		}
		if c.apis.Taken(d.Pipeline.ID) {
			continue // it is not the pipeline that the cluster has under this id
		}
		c.obey(ctx, a, d)
		if t.Runs = d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning; t.Runs { // obey may have changed it
			known.Wanted[d.Pipeline.ID] = protocol.Wanted{Digest: d.Digest, Labels: t.Rules.Labels, Relaxed: t.Mode == placement.Relaxed,
				Instances: t.Instances.Number(), Each: t.Instances == placement.Each}
		} else if d.Withdrawn.IsZero() {
			known.Idle[d.Pipeline.ID] = true
		} else {
			known.Gone[d.Pipeline.ID] = protocol.Wanted{Labels: t.Rules.Labels, Purge: d.Purge && terms.IsShared(d)}
		}
	}
	forgotten := c.forget(ctx, known.Gone)
	c.mu.Lock()
	before, had := c.terms, c.forgotten
	c.terms, c.forgotten = of, forgotten
	c.mu.Unlock()
	c.member.Declare(ctx, known)
	for id, t := range of {
		if !t.Same(before[id], c.member.Self.Labels) || forgotten[id] != had[id] {
			_ = a.Loop.Replan(ctx, id, false) // fails when the agent ends, which ends all
		}
	}
}

// forget forgets what this agent has of pipelines that were deleted from the cluster, and returns which.
func (c *clustered) forget(ctx context.Context, gone map[string]protocol.Wanted) map[string]bool {
	forgotten := map[string]bool{}
	for id, w := range gone {
		claim := c.member.Claims(id)[0]
		if never := w.Purge && claim.Pipeline == "" && c.member.Joined(); !claim.Deleted && !never {
			continue
		}
		if err := c.shared.Forget(ctx, id); err != nil {
			c.log.Error("cannot forget a pipeline that was deleted from the cluster, trying again", "component", "cluster", "pipeline_id", id, "err", err)
			time.AfterFunc(time.Second, c.declared.Notify)
			continue
		}
		forgotten[id] = true
	}
	return forgotten
}

// termsOf returns the terms of a pipeline. One that is not declared yet is taken for one of the cluster's.
func (c *clustered) termsOf(id string) terms.Terms {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.terms[id]
}

// pipelineOf returns the pipeline of a connector; ok is false when that is not one of the cluster's.
func (c *clustered) pipelineOf(connectorID string) (pipeline string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.terms {
		if !t.Local() && slices.Contains(t.Connectors, connectorID) {
			return id, true
		}
	}
	return "", false
}

// joined returns why an agent in a cluster can run nothing of it; nil for one that is alone.
func (c *clustered) joined() error {
	if c == nil || c.member.Joined() {
		return nil
	}
	return fmt.Errorf("this agent has no session in the cluster %q, so that it runs none of its pipelines", c.name)
}

// clustered reports whether a pipeline is one of the cluster's.
func (c *clustered) clustered(id string) bool { return !c.termsOf(id).Local() }

// elsewhere reports whether this agent is not to run a pipeline. One of the cluster that is withdrawn here may be
// declared on other members: until all have deleted it nothing of it is cleaned up, also while this agent still has its claim.
func (c *clustered) elsewhere(id string, withdrawn bool) bool {
	if t := c.termsOf(id); t.Local() {
		return !t.Rules.Allow(c.member.Self.Labels)
	}
	c.mu.Lock()
	forgotten := c.forgotten[id] // then it may be deleted here, too
	c.mu.Unlock()
	return !forgotten && (withdrawn || !c.member.Here(id))
}

// obey has a pipeline run or stop as a person asked of another member.
func (c *clustered) obey(ctx context.Context, a *Agent, d *spec.Declaration) {
	o := c.member.Override(d.Pipeline.ID)
	if o.Pipeline == "" || o.Digest != d.Digest || o.Status == d.Want() || !d.Withdrawn.IsZero() {
		return
	}
	if err := a.Store.SetOverride(ctx, d.Pipeline.ID, o.Status); err != nil && !errors.Is(err, spec.ErrNotFound) {
		a.options.Log.Error("cannot do what another member was asked for, trying again", "component", "cluster", "pipeline_id", d.Pipeline.ID, "err", err)
		time.AfterFunc(time.Second, c.declared.Notify)
		return
	}
	if o.Status == d.Pipeline.Status {
		d.Override = ""
	} else {
		d.Override = o.Status
	}
}

// override tells all members what a person asks of a pipeline, in place of what this version of its declaration says.
func (c *clustered) override(ctx context.Context, id string, status spec.Status, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, overrideTimeout)
	defer cancel()
	return c.member.SetOverride(ctx, id, status, digest)
}

// leave gives the pipelines, none of which runs any more, to other members.
func (c *clustered) leave(ctx context.Context, a *Agent) {
	c.ended.Store(true)
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := c.member.Drain(ctx); err != nil {
		a.options.Log.Warn("cannot leave the cluster in order, other members wait for the session to expire", "component", "cluster", "err", err)
	}
}
