package plugins

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// Kind says where a plugin runs.
type Kind string

// The kinds of plugins. KindAny occurs only in references: standalone if there is one,
// else built in.
const (
	KindAny        Kind = "any"
	KindBuiltin    Kind = "builtin"    // compiled into the agent
	KindStandalone Kind = "standalone" // an executable of its own
)

// Latest is the version that stands for the newest one there is.
const Latest = "latest"

// Name is the name of a plugin, or a reference to one when Kind is KindAny or Version
// is Latest.
type Name struct {
	Kind    Kind
	Name    string
	Version string
}

// ParseName reads [builtin:|standalone:|any:]name[@version]. What is left out becomes
// KindAny and Latest. A name with a slash is the path of an executable, which has no
// version.
func ParseName(s string) (Name, error) {
	n := Name{Kind: KindAny, Version: Latest}
	rest := s
	if prefix, name, ok := strings.Cut(s, ":"); ok {
		n.Kind, rest = Kind(prefix), name
	}
	switch n.Kind {
	case KindAny, KindBuiltin, KindStandalone:
	default:
		return Name{}, fmt.Errorf("cannot parse plugin name %q: prefix %q is none of builtin, standalone, any", s, n.Kind)
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

// String returns the full form kind:name@version, which ParseName reads back.
func (n Name) String() string {
	return string(n.Kind) + ":" + n.Name + "@" + n.Version
}

// isPath reports whether n names a file instead of a plugin.
func (n Name) isPath() bool { return strings.Contains(n.Name, "/") }

// Matches reports whether n, taken as a reference, can stand for the plugin called
// plugin. Versions are compared as text.
func (n Name) Matches(plugin Name) bool {
	return n.Name == plugin.Name &&
		(n.Kind == KindAny || n.Kind == plugin.Kind) &&
		(n.Version == Latest || n.Version == plugin.Version)
}

// CompareVersions orders versions as Latest sees them: semantic versions by precedence,
// with or without a leading v; any other text below them, and of two such texts the
// alphabetically smaller one counts as newer.
func CompareVersions(a, b string) int {
	va, vb := withV(a), withV(b)
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

func withV(version string) string {
	if strings.HasPrefix(version, "v") {
		return version
	}
	return "v" + version
}

// compare orders full names for listings: by kind, name and version.
func (n Name) compare(o Name) int {
	return cmp.Or(
		cmp.Compare(n.Kind, o.Kind),
		cmp.Compare(n.Name, o.Name),
		CompareVersions(n.Version, o.Version),
		cmp.Compare(n.Version, o.Version),
	)
}
