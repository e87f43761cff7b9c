package deadletters

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// format is the format of values that this version writes, and the newest that it reads.
const format = 1

// part describes the dead letters in the tail or in a segment.
type part struct {
	Count int64     `json:"count"`
	Bytes int64     `json:"bytes,omitempty"` // of records
	First int64     `json:"first,omitempty"` // id
	Last  int64     `json:"last,omitempty"`
	From  time.Time `json:"from,omitzero"` // time of the first refusal
	To    time.Time `json:"to,omitzero"`
}

// head is the value of the key of a queue. The state of the entry contains the newest dead letters.
type head struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`              // of the claim
	Stamp   string    `json:"stamp"`           // random: unique per change
	Added   string    `json:"added,omitempty"` // stamp of the last addition
	Writer  string    `json:"writer"`          // process that may write segments
	Epoch   uint64    `json:"epoch"`           // of the last owner that appended
	First   int       `json:"firstSegment"`
	Next    int       `json:"nextSegment"`
	NextID  int64     `json:"nextId"`
	Newest  time.Time `json:"newest,omitzero"` // time of the last dead letter appended
	Dropped uint64    `json:"dropped,omitempty"`
	Tail    part      `json:"tail"`
}

// segment is the value of the key of a segment. The state of the entry contains the dead letters.
type segment struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Number int    `json:"number"`
	Stamp  string `json:"stamp"`
	part
}

// queue is the view that this member has of the dead letters of a claim.
type queue struct {
	head     head
	revision uint64              // of the head; 0 if there is none
	segments map[int]seenSegment // as last seen; other segments must be read

	appending sync.Mutex       // one at a time; guards ids
	ids       map[string]int64 // of newest dead letters, by hash; nil while another process may append
}

type seenSegment struct {
	segment
	revision uint64
}

// queues is the view that this member has of the dead letters in the store, with the means to change them.
type queues struct {
	keys
	me string // random: identifies this process

	mu      sync.Mutex
	byClaim map[string]*queue // the map, and all fields of a queue except appending and ids, are guarded by mu
}

// get returns the queue of a claim.
func (qs *queues) get(claim string) *queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.at(claim)
}

// at returns the queue of a claim. mu must be held.
func (qs *queues) at(claim string) *queue {
	q := qs.byClaim[claim]
	if q == nil {
		q = &queue{segments: map[int]seenSegment{}}
		qs.byClaim[claim] = q
	}
	return q
}

// note records the current value of a key of a queue.
func (qs *queues) note(key string, e protocol.Entry) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if !strings.Contains(key, ".") {
		var h head
		if json.Unmarshal(e.Value, &h) == nil && h.Format <= format && h.ID != "" {
			qs.at(h.ID).noteHead(h, e.Revision)
		}
		return
	}
	var g segment
	if json.Unmarshal(e.Value, &g) == nil && g.Format <= format && g.ID != "" {
		if q := qs.at(g.ID); e.Revision > q.segments[g.Number].revision && (g.Number >= q.head.First || g.Count > 0) {
			q.segments[g.Number] = seenSegment{g, e.Revision}
		}
	}
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

// total returns the number of dead letters of a queue, and their bytes.
func (q *queue) total() (count, bytes int64) {
	count, bytes = q.head.Tail.Count, q.head.Tail.Bytes
	for n, g := range q.segments {
		if n >= q.head.First && n < q.head.Next {
			count, bytes = count+g.Count, bytes+g.Bytes
		}
	}
	return count, bytes
}

// seen returns the last known content of a segment.
func (qs *queues) seen(claim string, number int) (p part, known bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	g, known := qs.at(claim).segments[number]
	return g.part, known
}

// since returns the time of the first refusal, or zero if there is none.
func (q *queue) since() (from time.Time) {
	if q.head.Tail.Count > 0 {
		from = q.head.Tail.From
	}
	for n, g := range q.segments {
		if n >= q.head.First && n < q.head.Next && g.Count > 0 && (from.IsZero() || g.From.Before(from)) {
			from = g.From
		}
	}
	return from
}

// has reports whether a claim has, or had, a queue.
func (qs *queues) has(claim string) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.at(claim).revision > 0
}
