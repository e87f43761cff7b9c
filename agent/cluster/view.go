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

// observe takes an entry of the store, and notes who owns the pipeline that it is about.
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

// Claims returns the claims of a pipeline as they were seen last: that of the first instance, the only one of most
// pipelines, and those of further ones that have an owner. There is none, or no owner, when Owner is "".
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

// View returns what this member knows of the cluster. It fails when the member has not begun to
// take part.
func (m *Member) View(ctx context.Context) (protocol.View, error) {
	answer := make(chan protocol.View, 1) // a late answer must not change what was returned
	if err := m.ask(ctx, func() { answer <- m.node.View(m.now()) }); err != nil {
		return protocol.View{}, err
	}
	return <-answer, nil
}

// ask has f run by Run and waits for it.
func (m *Member) ask(ctx context.Context, f func()) error {
	m.init()
	done := make(chan struct{})
	select {
	case m.posts <- func() { f(); close(done) }:
	case <-ctx.Done():
		return fmt.Errorf("cannot ask this member of the cluster: %w", ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot ask this member of the cluster, which does not take part yet: %w", ctx.Err())
	}
}

// Owned returns the claims that a member has, in no order, but for those got just now that the store has not shown yet.
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

// Counts returns a function that reports whether a member is the one to count what belongs to a claim: it has the claim, or no
// live member has, and it is the first of the live ones by name. So each claim is counted by one member, but for moments in which
// they know different things.
func Counts(ctx context.Context, m *Member) func(claim string) bool {
	answer := make(chan []string, 1) // a late answer must not change what was returned
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

// Stats is what a member counts.
type Stats struct {
	Members   int           // with a session, 0 while this one has none
	Pipelines int           // that this one owns
	Lag       time.Duration // for which the write of a claim has gone longest without a known outcome
	Notices   map[protocol.Reason]uint64
}

// Stats returns what the member counted until now.
func (m *Member) Stats(ctx context.Context) (s Stats) {
	m.init()
	type asked struct {
		members int
		lag     time.Duration
	}
	answer := make(chan asked, 1) // a late answer must not change what was returned
	if m.ask(ctx, func() { answer <- asked{len(m.node.Live()), m.node.Lag(m.now())} }) == nil {
		a := <-answer
		s.Members, s.Lag = a.members, a.lag
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Pipelines, s.Notices = len(m.owned), maps.Clone(m.counts)
	return s
}
