// Package member makes an agent a member of the cluster named in its settings, and shows the cluster in the agent's
// API. Package cluster then runs the declarations in the agent's store. The loop, the runs and the dead letters of the
// agent get parts that depend on the claims.
package member

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/deadletters"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec/notify"
)

// leaveTimeout bounds how long an agent waits at its end until its claims are released. After that, other members wait
// for the session to expire.
const leaveTimeout = 5 * time.Second

// Member is an agent that is a member of a cluster. Create it with New.
type Member struct {
	needs       clustering.Needs
	overrides   clustering.Overrides
	member      *cluster.Member
	shared      *cluster.Shared
	claims      claimStore
	declared    notify.Signal // the declarations changed
	ended       atomic.Bool   // no pipeline runs any more
	notices     *cluster.NoticeLog
	apis        *cluster.Declarations
	reports     *cluster.Reports
	versions    *cluster.Versions
	deadLetters *deadletters.Store

	mu        sync.Mutex
	terms     map[string]cluster.Placement // guarded by mu: terms of the declared pipelines
	forgotten map[string]bool              // guarded by mu: deleted pipelines that are only declared here
}

// New makes the agent a member of the cluster named in the settings. The store of the cluster is one of kinds. It need
// not answer yet; Run waits for it. An error reports wrong settings.
func New(n clustering.Needs, kinds []StoreKind) (*Member, error) {
	c := n.Settings
	name, err := memberName(c)
	if err != nil {
		return nil, err
	}
	labels, err := cluster.ParseLabels(c.Labels)
	if err != nil {
		return nil, err
	}
	s, err := openClaims(kinds, c, name, n.Log)
	if err != nil {
		return nil, err
	}
	member := &cluster.Member{
		Store: s,
		Self: protocol.Session{Agent: name, Version: n.Version, Labels: labels, Capacity: float64(c.Capacity),
			Started: time.Now()},
		Timing: protocol.TimingOf(c.TTL),
		Log:    n.Log,
	}
	member.Timing.Retire = c.Keep
	owner := ownerOf(member)
	m := &Member{
		needs:    n,
		member:   member,
		shared:   &cluster.Shared{Local: n.Store, Member: member},
		claims:   s,
		declared: notify.NewSignal(),
		notices:  &cluster.NoticeLog{Apply: n.Store.Apply, Log: n.Log},
		apis:     &cluster.Declarations{Member: member, Store: n.Store, Log: n.Log},
		reports:  &cluster.Reports{Store: s},
		versions: &cluster.Versions{Member: name, Store: s, Local: n.Store, Loop: n.Loop, Log: n.Log, Owner: owner},
		deadLetters: deadletters.New(deadletters.Needs{Local: n.DeadLetters, Member: name, Store: s, Log: n.Log,
			Owner: owner}),
	}
	m.connect()
	return m, nil
}

// Overrides returns the parts of the agent that are different in the cluster.
func (m *Member) Overrides() clustering.Overrides { return m.overrides }

// connect connects the parts of the membership with each other.
func (m *Member) connect() {
	m.member.Notes = []cluster.Noter{m.reports, m.versions, m.apis, m.deadLetters}
	m.member.Dropped = m.deadLetters.Deleted
	m.shared.Clustered, m.deadLetters.Clustered = m.clustered, m.clustered
	m.deadLetters.Replicas = m.shared
	m.deadLetters.Counts = func(ctx context.Context) func(string) bool {
		ctx, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		return cluster.Counts(ctx, m.member)
	}
	m.apis.Changed = m.declared.Notify
	if r, ok := m.needs.Schemas.(*cluster.SchemaRegistry); ok {
		r.Store, r.Shared = m.claims, m.sharesSubject
	}
	m.overrides = clustering.Overrides{
		Desired:          m.desired,
		API:              m,
		Runs:             m.shared,
		States:           loopStore{m.needs.Store, m.shared},
		Replicas:         m.deadLetters,
		DeadLetters:      m.deadLetters,
		Replayed:         deadletters.Replayed{Store: m.deadLetters},
		Reservations:     m.deadLetters,
		Keep:             m.deadLetters.Keep,
		Totals:           m.deadLetters.TotalsHere,
		Stats:            m.stats,
		Instance:         m.member.Instance,
		Epoch:            m.member.Epoch,
		WaitToWrite:      m.member.WaitToWrite,
		OwnedElsewhere:   m.runsOnOtherMember,
		OnVersionOutcome: m.versions.Record,
		InFile:           cluster.ProblemsInFile,
	}
}

// ownerOf returns a function that returns a member's claim of a pipeline, and its epoch.
func ownerOf(m *cluster.Member) func(pipeline string) (claim string, epoch uint64, ok bool) {
	return func(pipeline string) (string, uint64, bool) {
		epoch, ok := m.Epoch(pipeline)
		return protocol.InstanceID(pipeline, m.Instance(pipeline)), epoch, ok
	}
}

func memberName(c config.Cluster) (string, error) {
	host, err := os.Hostname()
	if name := cmp.Or(c.Member, host); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("cannot name this member of the cluster: cluster.member is not set, and the host has no "+
		"name: %w", err)
}

// Run takes part in the cluster until ctx ends, and returns when everything that it started has ended. The pipelines of
// the agent stop when ending is done.
func (m *Member) Run(ctx, ending context.Context) error {
	replan := func(id string, cut bool) {
		go func() { _ = m.needs.Loop.Replan(ctx, id, cut) }() // fails only when the agent ends
	}
	m.member.Adopt = m.shared.Adopt
	m.member.Inherit = m.inherit(ending)
	m.member.Retire = func(ctx context.Context, id string) error {
		return m.shared.Retire(ctx, id, m.needs.Delete, m.needs.Loop.Policy.Delay)
	}
	m.member.Placed = func(id string) { replan(id, false) }
	m.member.Lost = func(id string) { replan(id, true) }
	m.member.Idle = func(ctx context.Context, id string) bool {
		if m.ended.Load() {
			return true
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second) // the loop may have ended
		defer cancel()
		if !m.clustered(id) {
			return true // it is private to this agent by now, and runs without the claim
		}
		idle, err := m.needs.Loop.Idle(ctx, id)
		return idle && err == nil
	}
	m.member.Happened = m.notices.Add
	defer context.AfterFunc(ending, m.member.End)()
	m.member.Asked = m.Changed
	m.member.Deleted = func(string) { m.Changed() }
	m.member.Moved = func(string) { m.needs.Moved() }
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { m.declare(ctx) }) // local pipelines do not wait for the store
	background.Go(func() { m.notices.Run(ctx) })
	background.Go(func() { m.apis.Run(ctx) })
	background.Go(func() { m.versions.Run(ctx) })
	background.Go(func() { m.deadLetters.Run(ctx) })
	if err := m.ready(ctx); err != nil {
		return err
	}

	background.Go(func() { m.report(ctx) })
	return m.member.Run(ctx)
}

// inherit returns a function that resumes a pipeline from the versions that the last owner tried. It starts nothing
// once ending is done.
func (m *Member) inherit(ending context.Context) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ending, cancel)()
		if err := m.versions.Inherit(ctx, id); err != nil && ending.Err() == nil {
			return err
		}
		return nil
	}
}

// ready waits until the store can keep claims.
func (m *Member) ready(ctx context.Context) error {
	reach := notify.Throttle{Fails: "cannot use " + m.claims.product + " for the cluster, trying again",
		Recovered: m.claims.product + " is ready for the cluster"}
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := m.claims.ready(try)
		cancel()
		if ctx.Err() != nil {
			break
		}
		reach.Observe(m.needs.Log.With("component", "cluster"), err)
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

// Changed reports that the declarations may have changed. It does not block.
func (m *Member) Changed() {
	m.apis.Recheck()
	m.declared.Notify()
}

// Joined returns the reason why this agent cannot run pipelines of the cluster, nil if it has joined.
func (m *Member) Joined() error {
	if m.member.Joined() {
		return nil
	}
	return fmt.Errorf("this agent has no session in the cluster %q, so it does not run the pipelines of the cluster",
		m.needs.Settings.Name)
}

// Leave hands the pipelines, which must all have stopped, to other members. It returns within seconds; Run keeps
// running.
func (m *Member) Leave(ctx context.Context) {
	m.ended.Store(true)
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := m.member.Drain(ctx); err != nil {
		m.needs.Log.Warn("cannot leave the cluster cleanly, other members wait for the session to expire", "component",
			"cluster", "err", err)
	}
}
