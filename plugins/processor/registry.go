package processor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Registry finds processors by name.
type Registry struct {
	// Builtin are the processors compiled into the agent.
	Builtin []sdk.ProcessorPlugin
	// Hint ends the error about a processor that does not exist; may be empty.
	Hint string
	// Unused explains why files whose names contain name are no processors, empty if there are none; may be nil.
	Unused func(name string) string
	// Standalone returns the processors that are currently in files; nil if there are none.
	Standalone func() []sdk.ProcessorPlugin
	// Await returns nil when Standalone knows all files, or an error when ctx ends before; nil if there is nothing to
	// wait for.
	Await func(ctx context.Context) error
	// AllowPath returns an error if settings may not name a file; nil allows every file.
	AllowPath func(path string) error
	// TimeLimit is processors.timeout: Check warns of settings that exceed it. 0: no limit.
	TimeLimit time.Duration

	running running
}

// Find resolves a reference of the form [builtin:|standalone:|any:]name[@version] to a processor, and reports whether
// it is built in. Unless the reference specifies otherwise, a standalone processor takes precedence over a built-in
// one, and the newest version over others.
func (r *Registry) Find(reference string) (p sdk.ProcessorPlugin, builtin bool, err error) {
	ref, err := pluginname.Parse(reference)
	if err != nil {
		return p, false, err
	}
	if p, ok := newest(r.standalone(), pluginname.Standalone, ref); ok {
		return p, false, nil
	}
	if p, ok := newest(r.Builtin, pluginname.Builtin, ref); ok {
		return p, true, nil
	}
	return p, false, r.notFound(reference, ref)
}

func (r *Registry) standalone() []sdk.ProcessorPlugin {
	if r.Standalone == nil {
		return nil
	}
	return r.Standalone()
}

// newest returns the plugin with the greatest version that matches ref.
func newest(
	plugins []sdk.ProcessorPlugin, kind pluginname.Kind, ref pluginname.Name,
) (found sdk.ProcessorPlugin, ok bool) {
	for _, p := range plugins {
		if !ref.Matches(pluginname.Name{Kind: kind, Name: p.Name, Version: p.Version}) {
			continue
		}
		if !ok || pluginname.CompareVersions(p.Version, found.Version) > 0 {
			found, ok = p, true
		}
	}
	return found, ok
}

// notFound returns the error that no processor matches ref, written as reference. It names the processors with this
// name, or the nearest one.
func (r *Registry) notFound(reference string, ref pluginname.Name) error {
	var all []pluginname.Name
	for _, p := range r.standalone() {
		all = append(all, nameOf(p, false))
	}
	for _, p := range r.Builtin {
		all = append(all, nameOf(p, true))
	}
	var names, same []string
	for _, n := range all {
		names = append(names, n.Name)
		if n.Name == ref.Name {
			same = append(same, n.String())
		}
	}
	more := ""
	if r.Unused != nil {
		more = r.Unused(ref.Name)
	}
	if r.Hint != "" {
		more += "; " + r.Hint
	}
	if same != nil {
		return fmt.Errorf("cannot find processor %q: installed: %s%s", reference, strings.Join(same, ", "), more)
	}
	hint := ""
	if near := texts.Closest(ref.Name, names); near != "" {
		if strings.Contains(reference, ":") {
			i := slices.IndexFunc(all, func(n pluginname.Name) bool { return n.Name == near })
			near = string(all[i].Kind) + ":" + near
		}
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("cannot find processor %q: %s'conduit plugins ls --processors' lists the %d there are%s",
		reference, hint, len(all), more)
}
