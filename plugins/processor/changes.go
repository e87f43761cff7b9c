package processor

import (
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Running is a running processor, and the plugin that a restart would use.
type Running struct {
	ProcessorID string
	Reference   string          // to the plugin, as declared
	Plugin      pluginname.Name // the running plugin
	Started     time.Time
	Now         pluginname.Name // the plugin to which Reference refers now
	Err         error           // why Reference refers to none; nil: it does
}

// running are the processors of a Registry that run. The zero running is ready to use.
type running struct {
	mu  sync.Mutex
	all map[*Running]bool // guarded by mu
}

// begin registers a running processor until end is called.
func (r *Registry) begin(id, reference string, plugin sdk.ProcessorPlugin, builtin bool) (end func()) {
	one := &Running{ProcessorID: id, Reference: reference, Plugin: nameOf(plugin, builtin), Started: time.Now()}
	r.running.mu.Lock()
	defer r.running.mu.Unlock()
	if r.running.all == nil {
		r.running.all = map[*Running]bool{}
	}
	r.running.all[one] = true
	return func() {
		r.running.mu.Lock()
		defer r.running.mu.Unlock()
		delete(r.running.all, one)
	}
}

// Running returns the running processors in any order.
func (r *Registry) Running() []Running {
	r.running.mu.Lock()
	all := make([]Running, 0, len(r.running.all))
	for one := range r.running.all {
		all = append(all, *one)
	}
	r.running.mu.Unlock()
	type choice struct {
		name pluginname.Name
		err  error
	}
	choices := map[string]choice{}
	for i := range all {
		now, ok := choices[all[i].Reference]
		if !ok {
			plugin, builtin, err := r.Find(all[i].Reference)
			now = choice{nameOf(plugin, builtin), err}
			choices[all[i].Reference] = now
		}
		all[i].Now, all[i].Err = now.name, now.err
	}
	return all
}

func nameOf(plugin sdk.ProcessorPlugin, builtin bool) pluginname.Name {
	n := pluginname.Name{Kind: pluginname.Standalone, Name: plugin.Name, Version: plugin.Version}
	if builtin {
		n.Kind = pluginname.Builtin
	}
	return n
}
