package reconcile

import (
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Saver is a saver that saves only on request.
type Saver struct{ saver }

// NewSaver returns a saver without pending states.
func NewSaver() *Saver {
	return &Saver{saver{wake: notify.NewSignal(), pending: map[string]*pending{}}}
}

// Put adds s to the pending states.
func (s *Saver) Put(state spec.State) { s.put(state) }

// Fail takes the pending states and returns a function that puts them back, as after a failed save.
func (s *Saver) Fail() (putBack func()) {
	taken := s.take()
	return func() {
		for _, p := range taken {
			s.giveBack(p)
		}
	}
}

// Waiting returns the pending states.
func (s *Saver) Waiting() (states []spec.State) {
	for _, p := range s.take() {
		states = append(states, p.state)
	}
	return states
}
