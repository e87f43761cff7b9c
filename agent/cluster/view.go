package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// observe handles an entry of the store, and records the owner of the pipeline.
func (m *Member) observe(ctx context.Context, e protocol.Entry) {
	if strings.HasPrefix(e.Key, protocol.OverridePrefix) {
		if m.noteOverride(e) && m.Asked != nil {
			m.Asked()
		}
		return
	}
	if slices.ContainsFunc(m.Notes, func(n Noter) bool { return n.Note(e) }) {
		return
	}
	m.node.Observe(m.now(), e)
	id, claim := m.node.Claimed(e.Key)
	if id == "" {
		return
	}
	m.mu.Lock()
	before := m.owners[id]
	m.owners[id] = claim
	pipeline, number := protocol.InstanceOf(id)
	if number > m.instances[pipeline] {
		m.instances[pipeline] = number
	}
	m.mu.Unlock()
	if before.Owner != claim.Owner && m.Moved != nil {
		m.Moved(pipeline)
	}
	if claim.Deleted && !before.Deleted {
		m.working.Go(func() {
			dropVersions(ctx, m.Store, id, m.Timing.Tombstone)
			if m.Dropped != nil {
				m.Dropped(ctx, id, e.Revision, m.Timing.Tombstone)
			}
		})
	}
	if claim.Deleted && !before.Deleted && number == 1 {
		m.working.Go(func() { dropOverride(ctx, m.Store, pipeline, m.Timing.Tombstone) })
		if m.Deleted != nil {
			m.Deleted(pipeline)
		}
	}
}

// Claims returns the latest claims of a pipeline: the claim of the first instance, which is the only one of most
// pipelines, and the claims of further instances that have an owner. A claim with an empty Owner does not exist or has
// no owner.
func (m *Member) Claims(pipeline string) []protocol.Claim {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []protocol.Claim{m.owners[pipeline]}
	for number := 2; number <= m.instances[pipeline]; number++ {
		if c := m.owners[protocol.InstanceID(pipeline, number)]; c.Owner != "" {
			all = append(all, c)
		}
	}
	return all
}

// View returns this member's view of the cluster. It fails if the member has not begun to take part.
func (m *Member) View(ctx context.Context) (protocol.View, error) {
	answer := make(chan protocol.View, 1) // a late answer must not change the returned value
	if err := m.ask(ctx, func() { answer <- m.node.View(m.now()) }); err != nil {
		return protocol.View{}, err
	}
	return <-answer, nil
}

// ask runs f on the goroutine of Run and waits for it.
func (m *Member) ask(ctx context.Context, f func()) error {
	m.init()
	done := make(chan struct{})
	select {
	case m.posts <- func() { f(); close(done) }:
	case <-ctx.Done():
		return fmt.Errorf("cannot query this member of the cluster: %w", ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot query this member of the cluster, which has not joined yet: %w", ctx.Err())
	}
}

// Owned returns the claims of a member, in no order. Claims that the store has not shown yet are missing.
func Owned(m *Member) (all []protocol.Claim) {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	for pipeline, o := range m.owned {
		if c := m.owners[protocol.InstanceID(pipeline, o.number)]; c.Owner == m.Self.Agent {
			all = append(all, c)
		}
	}
	return all
}

// Counts returns a function that reports whether a member counts the dead letters of a claim: the member has the claim,
// or no live member has it and the member is the first live one by name. So each claim is counted by one member, except
// for moments in which the members' views differ.
func Counts(ctx context.Context, m *Member) func(claim string) bool {
	answer := make(chan []string, 1) // a late answer must not change the returned value
	var live []string
	if m.ask(ctx, func() { answer <- m.node.Live() }) == nil {
		live = <-answer
	}
	first := len(live) > 0 && slices.Min(live) == m.Self.Agent
	return func(claim string) bool {
		pipeline, number := protocol.InstanceOf(claim)
		m.mu.Lock()
		defer m.mu.Unlock()
		if o, ok := m.owned[pipeline]; ok && o.number == number {
			return true
		}
		owner := m.owners[claim].Owner
		return first && (owner == m.Self.Agent || !slices.Contains(live, owner))
	}
}

// Stats holds the counters of a member.
type Stats struct {
	Members   int           // with a session; 0 while this member has none
	Pipelines int           // owned by this member
	Lag       time.Duration // longest time that the write of a claim has been without a known outcome
	Notices   map[protocol.Reason]uint64
}

// Stats returns the current counters of the member.
func (m *Member) Stats(ctx context.Context) (s Stats) {
	m.init()
	type asked struct {
		members int
		lag     time.Duration
	}
	answer := make(chan asked, 1) // a late answer must not change the returned value
	if m.ask(ctx, func() { answer <- asked{len(m.node.Live()), m.node.Lag(m.now())} }) == nil {
		a := <-answer
		s.Members, s.Lag = a.members, a.lag
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Pipelines, s.Notices = len(m.owned), maps.Clone(m.counts)
	return s
}
