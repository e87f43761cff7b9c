// Package deadletters keeps the dead letters of a cluster's pipelines in the cluster's store, where every member lists,
// replays and drops them.
//
// Each claim has a queue. The newest dead letters are the state of the head, a key that changes by compare-and-swap.
// Older ones are in segments, separate keys that the head counts. The head contains the epoch of the claim, so that
// appends of a former owner are refused. Members watch the numbers of dead letters, and read the dead letters on
// demand.
package deadletters

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Needs holds the dependencies of a Store.
type Needs struct {
	// Local holds the dead letters on the disk of this agent: of pipelines outside the cluster, and those that are too
	// large for the store of a cluster.
	Local  *deadletter.Store
	Member string // name of this agent
	Store  cluster.Store
	Log    *slog.Logger
	// Owner returns this agent's claim of a pipeline and its epoch; ok is false if it has none.
	Owner func(pipeline string) (claim string, epoch uint64, ok bool)
}

// Store combines the dead letters of this agent and of the cluster. Create it with New, set its exported fields, pass
// entries of the store to Note, and call Run.
type Store struct {
	Replicas engine.Replicas // for positions
	// Clustered reports whether a pipeline belongs to the cluster.
	Clustered func(pipeline string) bool
	// Counts returns a function that reports whether this agent counts the dead letters of a claim in its metrics.
	Counts func(ctx context.Context) func(claim string) bool

	needs   Needs
	queues  queues
	leases  leases
	bounds  bounds
	outbox  outbox
	wake    notify.Signal
	running context.Context // ends with Run: saving positions has no context
	end     context.CancelFunc
}

// New returns the dead letters of a member.
func New(n Needs) *Store {
	s := &Store{needs: n, wake: notify.NewSignal()}
	s.running, s.end = context.WithCancel(context.Background())
	k := keys{store: n.Store, noted: func(e protocol.Entry) { s.Note(e) }}
	s.queues = queues{keys: k, me: rand.Text(), byClaim: map[string]*queue{}}
	s.leases = leases{keys: k, member: n.Member, seen: map[string]seenLease{}, reserved: map[string]*reservation{}}
	s.bounds = bounds{queues: &s.queues, local: n.Local, log: n.Log, begun: time.Now()}
	s.outbox = outbox{queues: &s.queues, bounds: &s.bounds, owner: n.Owner, written: &n.Local.Kept,
		byClaim: map[string]*pending{}}
	if n.Local.Memory != nil {
		s.outbox.memory = n.Local.Memory()
	}
	return s
}

// Note implements cluster.Noter.
func (s *Store) Note(e protocol.Entry) bool {
	key, is := strings.CutPrefix(e.Key, protocol.DeadLettersPrefix)
	switch {
	case !is:
		return false
	case isLease(key):
		s.leases.note(e)
	default:
		s.queues.note(key, e)
	}
	return true
}

// claims returns the claims of a pipeline that have or may have dead letters, the last instance first.
func (s *Store) claims(pipeline string) (all []string) {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	for number := protocol.MaxInstances; number > 1; number-- {
		if id := protocol.InstanceID(pipeline, number); s.queues.byClaim[id] != nil {
			all = append(all, id)
		}
	}
	if q := s.queues.byClaim[pipeline]; s.Clustered(pipeline) || q != nil && q.revision > 0 {
		all = append(all, pipeline)
	}
	return all
}

// Totals implements api.DeadLetterStore.
func (s *Store) Totals(ctx context.Context) ([]spec.DeadLetterTotals, error) {
	return s.totals(ctx, func(string) bool { return true })
}

// TotalsHere returns the totals on the disk of this agent, and the totals of the claims that this agent counts.
func (s *Store) TotalsHere(ctx context.Context) ([]spec.DeadLetterTotals, error) {
	return s.totals(ctx, s.Counts(ctx))
}

// InStore returns the numbers of dead letters in the store of the cluster, by pipeline.
func (s *Store) InStore() map[string]int64 {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	all := map[string]int64{}
	for claim, q := range s.queues.byClaim {
		if n, _ := q.total(); n > 0 {
			pipeline, _ := protocol.InstanceOf(claim)
			all[pipeline] += n
		}
	}
	return all
}

func (s *Store) totals(ctx context.Context, which func(claim string) bool) ([]spec.DeadLetterTotals, error) {
	all, err := s.needs.Local.Totals(ctx)
	if err != nil {
		return nil, err
	}
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	for claim, q := range s.queues.byClaim {
		if q.revision == 0 || !which(claim) {
			continue
		}
		pipeline, _ := protocol.InstanceOf(claim)
		i := slices.IndexFunc(all, func(t spec.DeadLetterTotals) bool { return t.PipelineID == pipeline })
		if i < 0 {
			all, i = append(all, spec.DeadLetterTotals{PipelineID: pipeline}), len(all)
		}
		count, bytes := q.total()
		all[i].Count, all[i].Bytes, all[i].Dropped = all[i].Count+count, all[i].Bytes+bytes,
			all[i].Dropped+q.head.Dropped
	}
	slices.SortFunc(all, func(a, b spec.DeadLetterTotals) int { return strings.Compare(a.PipelineID, b.PipelineID) })
	return all, nil
}
