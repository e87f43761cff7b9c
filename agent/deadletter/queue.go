package deadletter

import (
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/spec"
)

// queue holds the dead letters that were taken over but are not on disk.
type queue struct {
	mu      sync.Mutex
	pending []*queued
	bytes   int
	waiting map[string]int // number of dead letters by pipeline
	memory  Memory         // set before first use; nil: not counted
}

// add appends a dead letter, and reports whether there is memory for more.
func (q *queue) add(l *queued) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, l)
	q.bytes += len(l.body)
	if q.waiting == nil {
		q.waiting = map[string]int{}
	}
	q.waiting[l.pipeline]++
	if q.memory == nil || q.memory.Take(len(l.body)) {
		return q.bytes <= maxQueued
	}
	q.memory.Add(len(l.body))
	return false
}

func (q *queue) all() []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending
}

// concerns reports whether a dead letter from any of the pipelines is pending.
func (q *queue) concerns(checkpoints []spec.Checkpoint) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(checkpoints, func(c spec.Checkpoint) bool { return q.waiting[c.PipelineID] > 0 })
}

// forget removes the first n dead letters, which are durable.
func (q *queue) forget(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.pending[:n] {
		q.bytes -= len(l.body)
		if q.memory != nil {
			q.memory.Add(-len(l.body))
		}
		if q.waiting[l.pipeline]--; q.waiting[l.pipeline] == 0 {
			delete(q.waiting, l.pipeline)
		}
	}
	q.pending = slices.Clone(q.pending[n:])
}
