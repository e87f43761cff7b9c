// Package letters keeps the dead letters of the pipelines of a cluster in its store, where every member lists, replays and
// drops them.
//
// Each claim has a queue: the newest dead letters are the state of its head, a key that changes by compare-and-swap, and those
// before are in segments, keys of their own that the head counts. The head has the epoch of the claim, so that what a former
// owner would append is refused. Members watch how many there are where, and read dead letters when they are asked for them.
package letters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletters"
	"github.com/conduit-agent/conduit/agent/engine/commit"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec/notify"
)

// format is that of the values that this version writes, and the newest that it reads.
const format = 1

// part is how many dead letters are at a place, and which.
type part struct {
	Count int64     `json:"count"`
	Bytes int64     `json:"bytes,omitempty"` // of records
	First int64     `json:"first,omitempty"` // id
	Last  int64     `json:"last,omitempty"`
	From  time.Time `json:"from,omitzero"` // when the first was refused
	To    time.Time `json:"to,omitzero"`
}

// head is the value of the key of a queue. The state beside it has the newest dead letters.
type head struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`              // of the claim
	Stamp   string    `json:"stamp"`           // random: no two changes have the same
	Added   string    `json:"added,omitempty"` // stamp of the last addition
	Writer  string    `json:"writer"`          // process that may write segments
	Epoch   uint64    `json:"epoch"`           // of the owner that appended last
	First   int       `json:"firstSegment"`
	Next    int       `json:"nextSegment"`
	NextID  int64     `json:"nextId"`
	Newest  time.Time `json:"newest,omitzero"` // time of the dead letter that was appended last
	Dropped uint64    `json:"dropped,omitempty"`
	Tail    part      `json:"tail"`
}

// segment is the value of the key of a segment. The state beside it has the dead letters.
type segment struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Number int    `json:"number"`
	Stamp  string `json:"stamp"`
	part
}

// queue is what a member knows of the dead letters of a claim.
type queue struct {
	head     head
	revision uint64              // of the head; 0 while there is none
	segments map[int]seenSegment // as they were seen last; those that are not known are to be read

	flushing sync.Mutex // one write of pending at a time
	pending  []*deadletters.Letter
	epoch    uint64 // of pending
	bytes    int    // of pending

	appending sync.Mutex       // one at a time; guards ids
	ids       map[string]int64 // of newest dead letters, by hash; nil while another process may append
}

type seenSegment struct {
	segment
	revision uint64
}

// Local is the dead-letter store of this agent: for pipelines that are not the cluster's, and for what no store of a cluster
// takes.
type Local = deadletters.Store

// Share is the dead letters of this agent and of the cluster. Set the exported fields, hand it what the store of the cluster
// shows, and call Run.
type Share struct {
	Local    *Local
	Member   string // name of this agent
	Store    cluster.Store
	Log      *slog.Logger
	Replicas commit.Replicas // of positions
	// Clustered reports whether a pipeline is one of the cluster's.
	Clustered func(pipeline string) bool
	// Owner returns the claim of a pipeline that this agent has, and its epoch; ok is false when it has none.
	Owner func(pipeline string) (claim string, epoch uint64, ok bool)
	// Counts returns a function that reports whether this agent is the one that counts the dead letters of a claim in its
	// metrics.
	Counts func(ctx context.Context) func(claim string) bool

	once    sync.Once
	me      string // random
	wake    notify.Signal
	running context.Context // ends with Run: what saves positions has none
	end     context.CancelFunc
	memory  deadletters.Memory
	begun   time.Time

	mu       sync.Mutex
	queues   map[string]*queue       // by id of the claim; the map, and all of a queue but appending and ids, are guarded by mu
	bytes    int                     // guarded by mu: of what is pending
	leases   map[string]seenLease    // guarded by mu: by key
	reserved map[string]*reservation // guarded by mu: those of this agent, by key
}

func (s *Share) init() {
	s.once.Do(func() {
		s.me, s.wake, s.queues, s.begun = rand.Text(), notify.NewSignal(), map[string]*queue{}, time.Now()
		s.leases, s.reserved = map[string]seenLease{}, map[string]*reservation{}
		s.running, s.end = context.WithCancel(context.Background())
		if s.Local.Memory != nil {
			s.memory = s.Local.Memory()
		}
	})
}

// of returns the queue of a claim.
func (s *Share) of(claim string) *queue {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(claim)
}

func (s *Share) at(claim string) *queue {
	q := s.queues[claim]
	if q == nil {
		q = &queue{segments: map[int]seenSegment{}}
		s.queues[claim] = q
	}
	return q
}

// Note implements cluster.Noter.
func (s *Share) Note(e protocol.Entry) bool {
	key, is := strings.CutPrefix(e.Key, protocol.LettersPrefix)
	if !is {
		return false
	}
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	if isLease(key) {
		s.noteLease(e)
		return true
	}
	if !strings.Contains(key, ".") {
		var h head
		if json.Unmarshal(e.Value, &h) == nil && h.Format <= format && h.ID != "" {
			s.at(h.ID).noteHead(h, e.Revision)
		}
		return true
	}
	var g segment
	if json.Unmarshal(e.Value, &g) == nil && g.Format <= format && g.ID != "" {
		if q := s.at(g.ID); e.Revision > q.segments[g.Number].revision && (g.Number >= q.head.First || g.Count > 0) {
			q.segments[g.Number] = seenSegment{g, e.Revision}
		}
	}
	return true
}

func (q *queue) noteHead(h head, revision uint64) {
	if revision <= q.revision {
		return
	}
	q.head, q.revision = h, revision
	for n, g := range q.segments {
		if n < h.First && g.Count == 0 {
			delete(q.segments, n)
		}
	}
}

// total returns how many dead letters a queue has.
func (q *queue) total() (count, bytes int64) {
	count, bytes = q.head.Tail.Count, q.head.Tail.Bytes
	for n, g := range q.segments {
		if n >= q.head.First && n < q.head.Next {
			count, bytes = count+g.Count, bytes+g.Bytes
		}
	}
	return count, bytes
}

// claims returns the claims of a pipeline that have dead letters, or may have some, those of its last instance first.
func (s *Share) claims(pipeline string) (all []string) {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := protocol.MaxInstances; number > 1; number-- {
		if id := protocol.InstanceID(pipeline, number); s.queues[id] != nil {
			all = append(all, id)
		}
	}
	if q := s.queues[pipeline]; s.Clustered(pipeline) || q != nil && q.revision > 0 {
		all = append(all, pipeline)
	}
	return all
}

// Totals implements dlq.Store.
func (s *Share) Totals(ctx context.Context) ([]rest.DeadLetterTotals, error) {
	return s.totals(ctx, func(string) bool { return true })
}

// TotalsHere returns what there is on the disk of this agent, and of the claims whose dead letters it counts.
func (s *Share) TotalsHere(ctx context.Context) ([]rest.DeadLetterTotals, error) {
	return s.totals(ctx, s.Counts(ctx))
}

// InStore returns how many dead letters of which pipelines are in the store of the cluster.
func (s *Share) InStore() map[string]int64 {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int64{}
	for claim, q := range s.queues {
		if n, _ := q.total(); n > 0 {
			pipeline, _ := protocol.InstanceOf(claim)
			all[pipeline] += n
		}
	}
	return all
}

func (s *Share) totals(ctx context.Context, which func(claim string) bool) ([]rest.DeadLetterTotals, error) {
	all, err := s.Local.Totals(ctx)
	if err != nil {
		return nil, err
	}
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	for claim, q := range s.queues {
		if q.revision == 0 || !which(claim) {
			continue
		}
		pipeline, _ := protocol.InstanceOf(claim)
		i := slices.IndexFunc(all, func(t rest.DeadLetterTotals) bool { return t.PipelineID == pipeline })
		if i < 0 {
			all, i = append(all, rest.DeadLetterTotals{PipelineID: pipeline}), len(all)
		}
		count, bytes := q.total()
		all[i].Count, all[i].Bytes, all[i].Dropped = all[i].Count+count, all[i].Bytes+bytes, all[i].Dropped+q.head.Dropped
	}
	slices.SortFunc(all, func(a, b rest.DeadLetterTotals) int { return strings.Compare(a.PipelineID, b.PipelineID) })
	return all, nil
}
