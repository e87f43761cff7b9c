package processor

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/spelling"
)

// Registry finds processors by name.
type Registry struct {
	// Builtin are those compiled into the agent.
	Builtin []sdk.ProcessorPlugin
	// Standalone returns those that lie in files at this moment; nil when there are none.
	Standalone func() []sdk.ProcessorPlugin
	// AllowPath returns why settings may not name a file; nil allows every one.
	AllowPath func(path string) error
}

// Find returns the processor that a reference [builtin:|standalone:|any:]name[@version]
// stands for, and whether it is compiled in. A standalone one goes before one compiled in,
// and the newest version before others, unless the reference says which.
func (r *Registry) Find(reference string) (p sdk.ProcessorPlugin, builtin bool, err error) {
	kind, name, version, err := parse(reference)
	if err != nil {
		return p, false, err
	}
	if kind != "builtin" && r.Standalone != nil {
		if p, ok := newest(r.Standalone(), name, version); ok {
			return p, false, nil
		}
	}
	if kind != "standalone" {
		if p, ok := newest(r.Builtin, name, version); ok {
			return p, true, nil
		}
	}
	return p, false, r.notFound(reference, kind, name)
}

func parse(reference string) (kind, name, version string, err error) {
	kind, name = "any", reference
	if prefix, rest, ok := strings.Cut(reference, ":"); ok {
		kind, name = prefix, rest
	}
	if kind != "any" && kind != "builtin" && kind != "standalone" {
		return "", "", "", fmt.Errorf("cannot parse plugin name %q: prefix %q is none of builtin, standalone, any", reference, kind)
	}
	version = "latest"
	if n, v, ok := strings.Cut(name, "@"); ok {
		name, version = n, v
	}
	if name == "" || version == "" {
		return "", "", "", fmt.Errorf("cannot parse plugin name %q: want name or name@version", reference)
	}
	return kind, name, version, nil
}

// newest returns the plugin of that name and version; latest stands for the greatest
// semantic version, any of which goes before a version that is none.
func newest(plugins []sdk.ProcessorPlugin, name, version string) (found sdk.ProcessorPlugin, ok bool) {
	for _, p := range plugins {
		if p.Name != name || version != "latest" && p.Version != version {
			continue
		}
		if !ok || semver.Compare(p.Version, found.Version) > 0 {
			found, ok = p, true
		}
	}
	return found, ok
}

func (r *Registry) notFound(reference, kind, name string) error {
	var known, versions []string
	add := func(plugins []sdk.ProcessorPlugin) {
		for _, p := range plugins {
			known = append(known, p.Name)
			if p.Name == name {
				versions = append(versions, p.Version)
			}
		}
	}
	if kind != "standalone" {
		add(r.Builtin)
	}
	if kind != "builtin" && r.Standalone != nil {
		add(r.Standalone())
	}
	switch best := spelling.Closest(name, known); {
	case len(versions) > 0:
		return fmt.Errorf("cannot find processor %q: there is version latest, %s", reference, strings.Join(versions, ", "))
	case best != "":
		return fmt.Errorf("cannot find processor %q: did you mean %q?", reference, best)
	}
	return fmt.Errorf("cannot find processor %q", reference)
}
