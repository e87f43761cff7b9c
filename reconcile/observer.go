package reconcile

import (
	"maps"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/spec"
)

// observer publishes the states of pipelines: on request, to a callback and to the store.
type observer struct {
	saver    *saver
	callback func(spec.State) // may be nil

	mu     sync.Mutex
	states map[string]spec.State // guarded by mu; values are replaced, never modified
}

// observe publishes a state and saves it.
func (o *observer) observe(s spec.State) {
	s.Bound()
	o.publish(s)
	o.saver.put(s)
}

// publish publishes a state without saving it.
func (o *observer) publish(s spec.State) {
	s.Bound()
	o.mu.Lock()
	o.states[s.PipelineID] = s
	o.mu.Unlock()
	if o.callback != nil {
		o.callback(s)
	}
}

// record saves an event together with the pipeline state.
func (o *observer) record(s spec.State, e spec.Event) {
	s.Bound()
	e.Bound()
	o.saver.put(s, e)
}

// load takes over the saved states.
func (o *observer) load(all []spec.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states = make(map[string]spec.State, len(all))
	for _, s := range all {
		o.states[s.PipelineID] = s
	}
}

func (o *observer) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.states, id)
}

func (o *observer) get(id string) (spec.State, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.states[id]
	return s, ok
}

// all returns every state, by id.
func (o *observer) all() []spec.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]spec.State, 0, len(o.states))
	for _, id := range slices.Sorted(maps.Keys(o.states)) {
		all = append(all, o.states[id])
	}
	return all
}
