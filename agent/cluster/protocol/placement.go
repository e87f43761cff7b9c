package protocol

import (
	"hash/fnv"
	"math"
	"slices"
)

// ranked returns the sessions that may run a pipeline, best first, by weighted rendezvous hashing: when a session comes
// or goes, only its own pipelines move.
func ranked(pipeline string, labels map[string]string, live []Session) []Session {
	type scored struct {
		session Session
		score   float64
	}
	var all []scored
	for _, s := range live {
		if s.eligible(labels) {
			all = append(all, scored{s, score(pipeline, s)})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	sessions := make([]Session, len(all))
	for i, s := range all {
		sessions[i] = s.session
	}
	return sessions
}

// eligible reports whether an agent has the required labels.
func (s *Session) eligible(labels map[string]string) bool {
	return !s.Draining && has(s.Labels, labels)
}

// eligible counts the sessions that have the required labels.
func eligible(labels map[string]string, live []Session) (n int) {
	for i := range live {
		if live[i].eligible(labels) {
			n++
		}
	}
	return n
}

// score is the rank of an agent for a pipeline: an agent with capacity c wins with probability c / sum of all
// capacities.
func score(pipeline string, s Session) float64 {
	h := fnv.New64a()
	h.Write([]byte(s.Agent))
	h.Write([]byte{0})
	h.Write([]byte(pipeline))
	// Finalizer of splitmix64: FNV leaves the high bits of short keys similar.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	uniform := (float64(x>>11) + 0.5) / (1 << 53)
	return -s.capacity() / math.Log(uniform)
}

// capacity returns the capacity of an agent relative to others.
func (s *Session) capacity() float64 {
	if s.Capacity <= 0 {
		return 1
	}
	return s.Capacity
}
