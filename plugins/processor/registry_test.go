package processor_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
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
		"standalone:set":         {"", false, `cannot find processor "standalone:set": installed: builtin:set@v1.0.0`},
		"standalone:mask@v2.0.0": {"", false, "v1.9.0, standalone:mask@v1.10.0, builtin:mask@v2.0.0"},
		"builtin:mask@v1.9.0":    {"", false, "v1.9.0, standalone:mask@v1.10.0, builtin:mask@v2.0.0"},
		"mash":                   {"", false, `did you mean "mask"? 'conduit plugins ls --processors' lists the 4 there`},
		"builtin:mash":           {"", false, `did you mean "standalone:mask"?`},
		"xxxxx":                  {"", false, `"xxxxx": 'conduit plugins ls --processors' lists the 4 there are`},
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

// The start of a processor waits for files that may contain it, and says so when that takes too long.
func TestOpenAwaitsFiles(t *testing.T) {
	found := []sdk.ProcessorPlugin{}
	r := &processor.Registry{Standalone: func() []sdk.ProcessorPlugin { return found }}
	open := func() error {
		c, err := processor.Open(t.Context(), "p", []spec.Processor{{ID: "late", Plugin: "standalone:late"}},
			processor.Options{Registry: r})
		if err != nil {
			return err
		}
		return c.Teardown(t.Context())
	}
	for _, tt := range []struct {
		await error
		want  string
		not   string
	}{
		{context.DeadlineExceeded, "are still being compiled", ""},
		{nil, `cannot find processor "standalone:late"`, "compiled"},
	} {
		r.Await = func(context.Context) error { return tt.await }
		err := open()
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			tt.not != "" && strings.Contains(err.Error(), tt.not) {
			t.Errorf("after %v: %v, want %q", tt.await, err, tt.want)
		}
	}
	r.Await = func(context.Context) error {
		found = append(found, sdk.ProcessorPlugin{Name: "late", Version: "v1.0.0",
			New: func() sdk.Processor { return &passing{} }})
		return nil
	}
	if err := open(); err != nil {
		t.Errorf("a processor that is found while the start waits: %v", err)
	}
}

// passing is a processor without settings that keeps all records.
type passing struct{ sdk.ProcessorBase }

func (*passing) Parameters() sdk.Parameters { return nil }

func (*passing) Configure(context.Context, map[string]string) error { return nil }

func (*passing) Process(context.Context, *sdk.ProcessBatch) error { return nil }

// A running processor is compared with the one to which its reference refers now.
func TestRegistryRunning(t *testing.T) {
	plugin := func(version string) sdk.ProcessorPlugin {
		return sdk.ProcessorPlugin{Name: "mask", Version: version, New: func() sdk.Processor { return &passing{} }}
	}
	found := []sdk.ProcessorPlugin{plugin("v1.0.0")}
	r := &processor.Registry{Standalone: func() []sdk.ProcessorPlugin { return found },
		Builtin: []sdk.ProcessorPlugin{plugin("v0.1.0")}}
	c, err := processor.Open(t.Context(), "p", []spec.Processor{{ID: "a", Plugin: "mask", Workers: 2},
		{ID: "b", Plugin: "mask@v1.0.0"}, {ID: "c", Plugin: "builtin:mask"}}, processor.Options{Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, want string) {
		t.Helper()
		var lines []string
		for _, p := range r.Running() {
			line := p.ProcessorID + " " + p.Reference + " " + p.Plugin.String() + " " + p.Now.String()
			if p.Err != nil {
				line = p.ProcessorID + " " + p.Err.Error()
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	const pinned, builtin = "; p:b mask@v1.0.0 standalone:mask@v1.0.0 standalone:mask@v1.0.0",
		"; p:c builtin:mask builtin:mask@v0.1.0 builtin:mask@v0.1.0"
	check("at the start", "p:a mask standalone:mask@v1.0.0 standalone:mask@v1.0.0"+pinned+builtin)
	found = append(found, plugin("v1.1.0"))
	check("with a newer one", "p:a mask standalone:mask@v1.0.0 standalone:mask@v1.1.0"+pinned+builtin)
	found = nil
	check("without any", `p:a mask standalone:mask@v1.0.0 builtin:mask@v0.1.0; p:b cannot find processor "mask@v1.0.0": `+
		"installed: builtin:mask@v0.1.0"+builtin)
	if err := c.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	check("at the end", "")
}
