package wasm

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// running is a running instance of a module.
type running struct {
	processorID string
	module      *module
	at          time.Time
}

// begin records that an instance runs, until end is called.
func (m *Modules) begin(processorID string, loaded *module) (end func()) {
	r := &running{processorID, loaded, time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		m.running = map[*running]bool{}
	}
	m.running[r] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.running, r)
		m.pruned = false // the module's cached files may be unused now
	}
}

// Changes returns the changes to the modules of running processors, one for each processor. It omits processors whose
// module is unchanged.
func (m *Modules) Changes() []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Change
	for r := range m.running {
		if reason, what, now := m.changed(r.module); reason != "" {
			name := r.module.spec.GetName() + "@" + r.module.spec.GetVersion()
			all = append(all, Change{r.processorID, reason,
				fmt.Sprintf("processor %s runs %s from an earlier file: %s", r.processorID, name, what), now, r.at})
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.ProcessorID, b.ProcessorID), a.Started.Compare(b.Started))
	})
	return slices.CompactFunc(all, func(a, b Change) bool { return a.ProcessorID == b.ProcessorID }) // workers
}

// changed describes how the file of a loaded module changed, and returns empty strings if it did not. now is the file
// for the next start, empty if there is none. The caller holds mu.
func (m *Modules) changed(was *module) (reason, what, now string) {
	const next = "; a restart of the pipeline uses the new file"
	if i := slices.IndexFunc(m.plugins, was.sameName); i >= 0 {
		if m.plugins[i].sum == was.sum {
			return "", "", ""
		}
		return "PluginReplaced", m.plugins[i].path + " was replaced" + next, "the new file " + m.plugins[i].path
	}
	switch file := m.files[was.path]; {
	case file == nil:
		return "PluginGone", was.path + " was removed, and the processor cannot be restarted without it", ""
	case file.err != nil:
		return "PluginBroken", fmt.Sprintf("%s is no longer usable, and the processor cannot be restarted: %v",
			was.path, file.err), ""
	default:
		return "PluginReplaced", fmt.Sprintf("%s is now %s@%s%s", was.path, file.module.spec.GetName(),
			file.module.spec.GetVersion(), next), "the new file " + was.path
	}
}
