// Package pluginname parses the names with which pipelines refer to connectors and processors.
package pluginname

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/semver"
)

// Kind is the place where a plugin runs.
type Kind string

// The kinds of plugins. Any occurs only in references: it means standalone if there is such a plugin, else built in.
const (
	Any        Kind = "any"
	Builtin    Kind = "builtin"    // compiled into the agent
	Standalone Kind = "standalone" // a separate executable
)

// Latest refers to the newest version.
const Latest = "latest"

// Name is the name of a plugin, or a reference to a plugin if Kind is Any or Version is Latest.
type Name struct {
	Kind    Kind
	Name    string
	Version string
}

// Parse parses [builtin:|standalone:|any:]name[@version]. Missing parts become Any and Latest. A name with a slash is
// the path of an executable, which has no version.
func Parse(s string) (Name, error) {
	n := Name{Kind: Any, Version: Latest}
	rest := s
	if prefix, name, ok := strings.Cut(s, ":"); ok {
		n.Kind, rest = Kind(prefix), name
	}
	switch n.Kind {
	case Any, Builtin, Standalone:
	default:
		return Name{}, fmt.Errorf("cannot parse plugin name %q: prefix %q is none of builtin, standalone, any", s,
			n.Kind)
	}
	if name, version, ok := strings.Cut(rest, "@"); ok && !strings.Contains(rest, "/") {
		rest, n.Version = name, version
	}
	if n.Name = rest; n.Name == "" {
		return Name{}, fmt.Errorf("cannot parse plugin name %q: the name is empty", s)
	}
	if n.Version == "" {
		return Name{}, fmt.Errorf("cannot parse plugin name %q: the version behind '@' is empty", s)
	}
	return n, nil
}

// Bare returns the plugin name in a reference, without kind and version. For a path it returns the plugin name in the
// file name. The reference may be malformed.
func Bare(reference string) string {
	name := reference[strings.IndexByte(reference, ':')+1:]
	if strings.Contains(name, "/") {
		return path.Base(name)
	}
	name, _, _ = strings.Cut(name, "@")
	return name
}

// String returns the full form kind:name@version, which Parse accepts.
func (n Name) String() string {
	return string(n.Kind) + ":" + n.Name + "@" + n.Version
}

// IsPath reports whether n names an executable instead of a plugin.
func (n Name) IsPath() bool { return strings.Contains(n.Name, "/") }

// Matches reports whether n, as a reference, matches plugin. Versions are compared as text.
func (n Name) Matches(plugin Name) bool {
	return n.Name == plugin.Name &&
		(n.Kind == Any || n.Kind == plugin.Kind) &&
		(n.Version == Latest || n.Version == plugin.Version)
}

// CompareVersions orders versions for Latest: semantic versions by precedence, with or without a leading v; any other
// text below them. Of two other texts the alphabetically smaller one counts as newer.
func CompareVersions(a, b string) int {
	va, vb := canonical(a), canonical(b)
	switch {
	case semver.IsValid(va) && semver.IsValid(vb):
		return semver.Compare(va, vb)
	case semver.IsValid(va):
		return 1
	case semver.IsValid(vb):
		return -1
	}
	return cmp.Compare(b, a)
}

// Major returns the major version, such as v1, empty if the version is not semantic.
func (n Name) Major() string { return semver.Major(canonical(n.Version)) }

// canonical returns version with the leading v that package semver requires.
func canonical(version string) string {
	if strings.HasPrefix(version, "v") {
		return version
	}
	return "v" + version
}

// Compare orders full names for listings: by kind, name and version.
func (n Name) Compare(o Name) int {
	return cmp.Or(
		cmp.Compare(n.Kind, o.Kind),
		cmp.Compare(n.Name, o.Name),
		CompareVersions(n.Version, o.Version),
		cmp.Compare(n.Version, o.Version),
	)
}
