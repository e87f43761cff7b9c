package plugins

import (
	"cmp"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/pluginname"
)

// Use is the use of a plugin by a connector.
type Use struct {
	Plugin      pluginname.Name // the plugin itself
	Reference   string          // to the plugin, as declared
	ConnectorID string
}

// Running is a connector that runs.
type Running struct {
	Use
	Started time.Time
	// how the file from which it started has changed: PluginReplaced, PluginBroken or PluginGone; empty: it has not
	Reason  string
	What    string // the change, for people
	Pending bool   // the file has changed, and its content is not known yet
}

// Change describes a running connector that a restart would start from another plugin or file, or not at all.
type Change struct {
	ConnectorID string
	Plugin      pluginname.Name // the running plugin
	Reason      string          // PluginReplaced, PluginBroken or PluginGone
	Message     string          // for people
	Now         string          // plugin or file for the next start, if it is PluginReplaced; for people
	Started     time.Time       // start of the connector
}

// Changes returns the running connectors that a restart would start from another plugin or file, or not at all, by
// connector.
func (h *Host) Changes() []Change {
	type choice struct {
		Installed
		err error
	}
	choices := map[string]choice{}
	var all []Change
	for _, registry := range h.registries() {
		for _, r := range registry.Running() {
			now, ok := choices[r.Reference]
			if !ok {
				now.Installed, _, now.err = h.find(r.Reference)
				choices[r.Reference] = now
			}
			if reason, message := r.changed(now.Installed, now.err); reason != "" {
				next := r.next(reason, now.Installed)
				all = append(all, Change{r.ConnectorID, r.Plugin, reason, message, next, r.Started})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.ConnectorID, b.ConnectorID), a.Started.Compare(b.Started)) < 0
	})
	return all
}

// changed compares r with now, the plugin to which its reference refers, or with err if it refers to none. It returns
// empty strings if they are equal.
func (r *Running) changed(now Installed, err error) (reason, message string) {
	switch {
	case r.Pending:
		return "", ""
	case err == nil && now.FullName() != r.Plugin:
		in := ""
		if now.Path != "" {
			in = " in " + now.Path
		}
		return "PluginReplaced", fmt.Sprintf("connector %s runs %s, but %s now refers to %s%s; a restart of the "+
			"pipeline uses that one", r.ConnectorID, r.Plugin, r.Reference, now.FullName(), in)
	case r.Reason != "":
		return r.Reason, fmt.Sprintf("connector %s runs %s from an earlier file: %s", r.ConnectorID, r.Plugin, r.What)
	case err != nil:
		return "PluginGone", fmt.Sprintf("connector %s runs %s, and cannot be restarted: %v", r.ConnectorID, r.Plugin, err)
	}
	return "", ""
}

// next describes the plugin that a restart would use after a change with this reason, empty if there is none.
func (r *Running) next(reason string, now Installed) string {
	switch {
	case reason != "PluginReplaced":
		return ""
	case now.FullName() == r.Plugin:
		return "the new file " + now.Path
	}
	return now.FullName().String()
}

// uses are the running connectors of builtins. The zero uses is ready to use.
type uses struct {
	mu  sync.Mutex
	all map[*Running]bool // guarded by mu
}

// begin registers a running connector until end is called.
func (u *uses) begin(use Use) (end func()) {
	r := &Running{Use: use, Started: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*Running]bool{}
	}
	u.all[r] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.all, r)
	}
}

// list returns the running connectors in any order.
func (u *uses) list() []Running {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]Running, 0, len(u.all))
	for r := range u.all {
		all = append(all, *r)
	}
	return all
}
