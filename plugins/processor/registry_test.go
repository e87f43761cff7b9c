package processor_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Unless it specifies otherwise, a reference resolves to the standalone processor before the built-in one, and to the
// newest version.
func TestRegistryFinds(t *testing.T) {
	plugin := func(name, version string) sdk.ProcessorPlugin {
		return sdk.ProcessorPlugin{Name: name, Version: version}
	}
	r := &processor.Registry{
		Builtin: []sdk.ProcessorPlugin{plugin("mask", "v2.0.0"), plugin("set", "v1.0.0")},
		Standalone: func() []sdk.ProcessorPlugin {
			return []sdk.ProcessorPlugin{plugin("mask", "v1.9.0"), plugin("mask", "v1.10.0")}
		},
	}
	for reference, want := range map[string]struct {
		version string
		builtin bool
		problem string
	}{
		"mask":                   {"v1.10.0", false, ""},
		"any:mask":               {"v1.10.0", false, ""},
		"mask@latest":            {"v1.10.0", false, ""},
		"mask@v1.9.0":            {"v1.9.0", false, ""},
		"mask@v2.0.0":            {"v2.0.0", true, ""},
		"builtin:mask":           {"v2.0.0", true, ""},
		"set":                    {"v1.0.0", true, ""},
		"standalone:set":         {"", false, `cannot find processor "standalone:set"`},
		"standalone:mask@v2.0.0": {"", false, "there is version latest, v1.9.0, v1.10.0"},
		"builtin:mask@v1.9.0":    {"", false, "there is version latest, v2.0.0"},
		"mash":                   {"", false, `did you mean "mask"?`},
		"docker:mask":            {"", false, `prefix "docker" is none of`},
		"mask@":                  {"", false, "the version behind '@' is empty"},
	} {
		p, builtin, err := r.Find(reference)
		if want.problem != "" {
			if err == nil || !strings.Contains(err.Error(), want.problem) {
				t.Errorf("%s: error %v, want one with %q", reference, err, want.problem)
			}
			continue
		}
		if err != nil || p.Version != want.version || builtin != want.builtin {
			t.Errorf("%s: version %s, built in %v, error %v", reference, p.Version, builtin, err)
		}
	}
}
