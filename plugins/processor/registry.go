package processor

import (
	"context"
	"fmt"
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

func (r *Registry) notFound(reference string, ref pluginname.Name) error {
	var known, versions []string
	add := func(plugins []sdk.ProcessorPlugin) {
		for _, p := range plugins {
			known = append(known, p.Name)
			if p.Name == ref.Name {
				versions = append(versions, p.Version)
			}
		}
	}
	if ref.Kind != pluginname.Standalone {
		add(r.Builtin)
	}
	if ref.Kind != pluginname.Builtin {
		add(r.standalone())
	}
	hint := ""
	if r.Hint != "" {
		hint = "; " + r.Hint
	}
	switch best := texts.Closest(ref.Name, known); {
	case len(versions) > 0:
		return fmt.Errorf("cannot find processor %q: there is version latest, %s%s", reference,
			strings.Join(versions, ", "), hint)
	case best != "":
		return fmt.Errorf("cannot find processor %q: did you mean %q?%s", reference, best, hint)
	}
	return fmt.Errorf("cannot find processor %q%s", reference, hint)
}
