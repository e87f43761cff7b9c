//go:build !minimal && !no_cluster

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
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec/notify"
)

// leaveTimeout bounds how long an agent that ends waits for its claims to be given up. After
// that other members wait for its session to expire.
const leaveTimeout = 5 * time.Second

// Membership is an agent's membership in a cluster. New makes it.
type Membership struct {
	Parts

	needs    Needs
	member   *cluster.Member
	shared   *cluster.Shared
	claims   claimStore
	declared notify.Signal // the declarations changed
	ended    atomic.Bool   // no pipeline runs any more
	notices  *cluster.NoticeLog
	apis     *cluster.Declarations
	reports  *cluster.Reports
	versions *cluster.Versions
	letters  *deadletters.Share

	mu        sync.Mutex
	terms     map[string]cluster.Placement // guarded by mu: of what is declared, by pipeline
	forgotten map[string]bool              // guarded by mu: pipelines that were deleted, of which this agent has nothing but the declaration
}

// New makes the agent a member of the cluster that the settings name; nil when they name none, so that it is alone. The
// store of the cluster need not answer, for which Run waits. An error says which settings are wrong.
func New(n Needs) (*Membership, error) {
	c := n.Settings
	if c.Name == "" {
		return nil, nil
	}
	name, err := memberName(c)
	if err != nil {
		return nil, err
	}
	labels, err := cluster.ParseLabels(c.Labels)
	if err != nil {
		return nil, err
	}
	s, err := openClaims(c, name, n.Log)
	if err != nil {
		return nil, err
	}
	member := &cluster.Member{
		Store:  s,
		Self:   protocol.Session{Agent: name, Version: n.Version, Labels: labels, Capacity: float64(c.Capacity), Started: time.Now()},
		Timing: protocol.TimingOf(c.TTL),
		Log:    n.Log,
	}
	member.Timing.Retire = c.Keep
	owner := ownerOf(member)
	m := &Membership{
		needs:    n,
		member:   member,
		shared:   &cluster.Shared{Local: n.Store, Member: member},
		claims:   s,
		declared: notify.NewSignal(),
		notices:  &cluster.NoticeLog{Apply: n.Store.Apply, Log: n.Log},
		apis:     &cluster.Declarations{Member: member, Store: n.Store, Log: n.Log},
		reports:  &cluster.Reports{Store: s},
		versions: &cluster.Versions{Member: name, Store: s, Local: n.Store, Loop: n.Loop, Log: n.Log, Owner: owner},
		letters:  deadletters.New(deadletters.Needs{Local: n.DeadLetters, Member: name, Store: s, Log: n.Log, Owner: owner}),
	}
	m.connect()
	return m, nil
}

// Absent returns nil: an agent of this build is a member of the cluster that its settings name.
func Absent() error { return nil }

// connect connects what the membership consists of.
func (m *Membership) connect() {
	m.member.Notes = []cluster.Noter{m.reports, m.versions, m.apis, m.letters}
	m.member.Dropped = m.letters.Deleted
	m.shared.Clustered, m.letters.Clustered = m.clustered, m.clustered
	m.letters.Replicas = m.shared
	m.letters.Counts = func(ctx context.Context) func(string) bool {
		ctx, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		return cluster.Counts(ctx, m.member)
	}
	m.apis.Changed = m.declared.Notify
	if r, ok := m.needs.Schemas.(*cluster.SchemaRegistry); ok {
		r.Store, r.Shared = m.claims, m.sharesSubject
	}
	m.Parts = Parts{
		Runs:        m.shared,
		States:      loopStore{m.needs.Store, m.shared},
		Replicas:    m.letters,
		DeadLetters: m.letters,
		Replayed:    deadletters.Replayed{Share: m.letters},
		Keep:        m.letters.Keep,
		Totals:      m.letters.TotalsHere,
		Stats:       m.stats,
		Instance:    m.member.Instance,
		Epoch:       m.member.Epoch,
		Hold:        m.member.Hold,
		Elsewhere:   m.elsewhere,
		Tried:       m.versions.Tried,
		InFile:      cluster.ProblemsInFile,
	}
}

// ownerOf returns a function that returns the claim of a pipeline that a member has, and its epoch.
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
	return "", fmt.Errorf("cannot name this member of the cluster: cluster.member is not set, and the host has no name: %w", err)
}

// Run takes part in the cluster until ctx ends, and returns when all that it started has ended. When ending is done the
// pipelines of the agent end.
func (m *Membership) Run(ctx, ending context.Context) error {
	replan := func(id string, cut bool) {
		go func() { _ = m.needs.Loop.Replan(ctx, id, cut) }() // fails when the agent ends, which ends all
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
		ctx, cancel := context.WithTimeout(ctx, time.Second) // the loop may end
		defer cancel()
		if !m.clustered(id) {
			return true // it is this agent's alone by now, and its run goes on without the claim
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
	background.Go(func() { m.declare(ctx) }) // what stays with this agent does not wait for the store
	background.Go(func() { m.notices.Run(ctx) })
	background.Go(func() { m.apis.Run(ctx) })
	background.Go(func() { m.versions.Run(ctx) })
	background.Go(func() { m.letters.Run(ctx) })
	if err := m.ready(ctx); err != nil {
		return err
	}

	background.Go(func() { m.report(ctx) })
	return m.member.Run(ctx)
}

// inherit returns a function that has a pipeline go on from what its last owner tried. Nothing is started any more once
// ending is done.
func (m *Membership) inherit(ending context.Context) func(context.Context, string) error {
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
func (m *Membership) ready(ctx context.Context) error {
	reach := notify.Throttle{Fails: "cannot use " + m.claims.product + " for the cluster, trying again", Recovered: m.claims.product + " is ready for the cluster"}
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

// Changed takes that the declarations may have changed. It does not block. An agent that is alone has no member to notify.
func (m *Membership) Changed() {
	if m != nil {
		m.apis.Recheck()
		m.declared.Notify()
	}
}

// Joined returns why an agent in a cluster can run nothing of it; nil for one that is alone.
func (m *Membership) Joined() error {
	if m == nil || m.member.Joined() {
		return nil
	}
	return fmt.Errorf("this agent has no session in the cluster %q, so that it runs none of its pipelines", m.needs.Settings.Name)
}

// Leave gives the pipelines, none of which runs any more, to other members. It returns within seconds; Run still runs.
func (m *Membership) Leave(ctx context.Context) {
	m.ended.Store(true)
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := m.member.Drain(ctx); err != nil {
		m.needs.Log.Warn("cannot leave the cluster in order, other members wait for the session to expire", "component", "cluster", "err", err)
	}
}
