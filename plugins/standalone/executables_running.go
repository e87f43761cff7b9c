package standalone

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
)

// Change describes a change on disk of the executable that a running connector was started from.
type Change struct {
	ConnectorID string
	Plugin      pluginname.Name // plugin of the connector
	Reason      string          // PluginReplaced, PluginBroken or PluginGone
	Message     string          // for people
	Started     time.Time       // start of the connector
}

// running is a running connector and the file that it was started from.
type running struct {
	connectorID string
	plugin      pluginname.Name
	file        *file
	pid         int
	at          time.Time
}

// begin registers a running connector until end is called.
func (e *Executables) begin(connectorID string, plugin pluginname.Name, f *file, pid int) (end func()) {
	r := &running{connectorID, plugin, f, pid, time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == nil {
		e.running = map[*running]bool{}
	}
	e.running[r] = true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.running, r)
	}
}

// Processes returns the processes of all running connectors, sorted by connector id.
func (e *Executables) Processes() []plugins.Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]plugins.Process, 0, len(e.running))
	for r := range e.running {
		all = append(all, plugins.Process{ConnectorID: r.connectorID, PID: r.pid})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.ConnectorID, b.ConnectorID), cmp.Compare(a.PID, b.PID)) < 0
	})
	return all
}

// Changes returns the changed executables of running connectors, by connector.
func (e *Executables) Changes() []Change {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Change
	for r := range e.running {
		if reason, what := e.changed(r); reason != "" {
			message := fmt.Sprintf("connector %s runs %s from an earlier file: %s",
				r.connectorID, r.plugin, what)
			all = append(all, Change{r.connectorID, r.plugin, reason, message, r.at})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.ConnectorID, b.ConnectorID), a.Started.Compare(b.Started)) < 0
	})
	return all
}

// changed describes the change of the file that r was started from. It returns "" if the file is unchanged, or if the
// new content is not specified yet. The caller holds mu.
func (e *Executables) changed(r *running) (reason, what string) {
	const next = "; a restart of the pipeline uses the new file"
	if now := e.plugins[r.plugin]; now != nil {
		if now.sum == r.file.sum {
			return "", ""
		}
		return "PluginReplaced", now.entry + " was replaced" + next
	}
	for _, now := range e.files {
		switch {
		case now.entry != r.file.entry:
		case e.problems[now.entry] != "":
			return "PluginBroken", fmt.Sprintf("%s is no longer usable, and the connector cannot be restarted: %s",
				now.entry, e.problems[now.entry])
		case now.spec == nil:
			return "", ""
		default:
			return "PluginReplaced", fmt.Sprintf("%s is now %s@%s%s", now.entry, now.spec.Name, now.spec.Version,
				next)
		}
	}
	return "PluginGone", r.file.entry + " was removed, and the connector cannot be restarted without it"
}

// runningSource is a source that is registered as running until Teardown.
type runningSource struct {
	*Source
	end func()
}

// Teardown implements connector.Source.
func (s *runningSource) Teardown(ctx context.Context) error {
	defer s.end()
	return s.Source.Teardown(ctx)
}

// runningDestination is a destination that is registered as running until Teardown.
type runningDestination struct {
	*Destination
	end func()
}

// Teardown implements connector.Destination.
func (d *runningDestination) Teardown(ctx context.Context) error {
	defer d.end()
	return d.Destination.Teardown(ctx)
}
