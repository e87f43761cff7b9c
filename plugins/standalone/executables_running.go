package standalone

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
)

// running is a running connector and the file that it was started from.
type running struct {
	plugins.Use
	file *file
	pid  int
	at   time.Time
}

// begin registers a running connector until end is called.
func (e *Executables) begin(use plugins.Use, f *file, pid int) (end func()) {
	use.ConnectorID = connector.DeclaredID(use.ConnectorID)
	r := &running{use, f, pid, time.Now()}
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
		all = append(all, plugins.Process{ConnectorID: r.ConnectorID, PID: r.pid})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.ConnectorID, b.ConnectorID), cmp.Compare(a.PID, b.PID)) < 0
	})
	return all
}

// Running implements plugins.Registry.
func (e *Executables) Running() []plugins.Running {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]plugins.Running, 0, len(e.running))
	for r := range e.running {
		all = append(all, e.compared(r))
	}
	return all
}

// compared compares the file that r was started from with the current files. The caller holds mu.
func (e *Executables) compared(r *running) plugins.Running {
	const never = ", and the connector cannot be restarted"
	c := plugins.Running{Use: r.Use, Started: r.at}
	if now := e.plugins[r.Plugin]; now != nil {
		if now.sum != r.file.sum {
			c.Reason, c.What = "PluginReplaced", now.entry+" was replaced; a restart of the pipeline uses the new file"
		}
		return c
	}
	c.Reason, c.What = "PluginGone", r.file.entry+" was removed"+never+" without it"
	for _, now := range e.files {
		switch {
		case now.entry != r.file.entry:
		case e.problems[now.entry] != "":
			c.Reason, c.What = "PluginBroken", now.entry+" is no longer usable"+never+": "+e.problems[now.entry]
		case now.spec == nil:
			c.Pending = true
		default:
			c.What = fmt.Sprintf("%s is now %s@%s%s: no file provides %s", now.entry, now.spec.Name, now.spec.Version,
				never, r.Plugin)
		}
	}
	return c
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
