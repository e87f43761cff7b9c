package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newFakeSource() sdk.Source           { return &fakeSource{} }
func newFakeDestination() sdk.Destination { return &fakeDestination{} }

func sampleHost() *plugins.Host {
	return &plugins.Host{
		Builtin: []sdk.Connector{
			{Name: "log", Version: "v1.0.0", Summary: "prints", Author: "me", NewDestination: newFakeDestination},
			{Name: "generator", Version: "v1.0.0", NewSource: newFakeSource},
			{Name: "file", Version: "v1.10.0", NewSource: newFakeSource, NewDestination: newFakeDestination},
			{Name: "file", Version: "v1.9.0", NewSource: newFakeSource, NewDestination: newFakeDestination},
		},
		Standalone: executables{"file@v0.1.0", "kafka@v10.0.0", "kafka@v2.0.0"},
	}
}

// executables is a registry of sources, each given as name@version.
type executables []string

type executable struct {
	connector.Source
	name pluginname.Name
}

func (executables) Await(context.Context, pluginname.Name, bool) {}

func (executables) Problems() []plugins.Problem {
	return []plugins.Problem{{Path: "/c/conduit-connector-oracle", Reason: "it is not executable"}}
}

func (executables) Resolve(path string) (pluginname.Name, error) {
	if path != "./kafka" {
		return pluginname.Name{}, errors.New("not here")
	}
	return pluginname.Parse("standalone:kafka@v2.0.0")
}

func (e executables) Installed() (all []plugins.Installed) {
	for _, text := range e {
		name, _ := pluginname.Parse("standalone:" + text)
		all = append(all, plugins.Installed{Kind: name.Kind,
			Specification: sdk.Specification{Name: name.Name, Version: name.Version, Source: sdk.Parameters{}}})
	}
	return all
}

func (executables) Running() []plugins.Running { return nil }

func (e executables) Source(_ context.Context, use plugins.Use) (connector.Source, error) {
	return executable{name: use.Plugin}, nil
}

func (e executables) Destination(context.Context, plugins.Use) (connector.Destination, error) {
	panic("there are no destinations")
}

func TestInstalled(t *testing.T) {
	var got []string
	for _, s := range sampleHost().Installed() {
		got = append(got, s.FullName().String())
	}
	want := "builtin:file@v1.9.0 builtin:file@v1.10.0 builtin:generator@v1.0.0 builtin:log@v1.0.0 " +
		"standalone:file@v0.1.0 standalone:kafka@v2.0.0 standalone:kafka@v10.0.0"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestFind(t *testing.T) {
	h := sampleHost()
	s, err := h.Find("log")
	if err != nil {
		t.Fatal(err)
	}
	if s.Summary != "prints" || s.Author != "me" || s.Source != nil || s.Destination["sdk.batch.size"].Default != "0" {
		t.Errorf("got %+v", s)
	}
	for ref, want := range map[string]string{
		"file":                "standalone:file@v0.1.0",
		"builtin:file":        "builtin:file@v1.10.0",
		"any:file@v1.9.0":     "builtin:file@v1.9.0",
		"kafka":               "standalone:kafka@v10.0.0",
		"standalone:kafka":    "standalone:kafka@v10.0.0",
		"kafka@v2.0.0":        "standalone:kafka@v2.0.0",
		"./kafka":             "standalone:kafka@v2.0.0",
		"generator@latest":    "builtin:generator@v1.0.0",
		"builtin:log@v1.0.0":  "builtin:log@v1.0.0",
		"builtin:file@v1.9.0": "builtin:file@v1.9.0",
	} {
		if s, err := h.Find(ref); err != nil || s.FullName().String() != want {
			t.Errorf("Find(%q) = %v, %v, want %s", ref, s.FullName(), err, want)
		}
	}
}

// The built-in plugin replaces a version of Conduit's plugin with the same name, with one warning.
func TestPinnedBuiltin(t *testing.T) {
	h, log := sampleHost(), &bytes.Buffer{}
	h.Log = slog.New(slog.NewTextHandler(log, nil))
	for _, ref := range []string{"builtin:generator@v0.10.4", "generator@v0.10.4", "builtin:generator@v0.10.4"} {
		if p, err := h.Find(ref); err != nil || p.Name != "generator" || p.Kind != pluginname.Builtin {
			t.Errorf("%s: %v, %v", ref, p, err)
		}
	}
	if n := strings.Count(log.String(), "plugin_name="); n != 2 {
		t.Errorf("warned %d times:\n%s", n, log)
	}
	for _, ref := range []string{"standalone:generator@v0.10.4", "builtin:generator@v7.0.0",
		"builtin:postgres@v0.14.2"} {
		if p, err := h.Find(ref); err == nil {
			t.Errorf("%s stands for %v", ref, p)
		}
	}
}

func TestUnknownPlugin(t *testing.T) {
	for ref, want := range map[string]string{
		"genrator":          `cannot find plugin "genrator": did you mean "generator"? 'conduit plugins ls' lists the `,
		"builtin:lgo":       `cannot find plugin "builtin:lgo": did you mean "builtin:log"? 'conduit plugins ls'`,
		"postgres":          `cannot find plugin "postgres": 'conduit plugins ls' lists the `,
		"log@v3.0.0":        `cannot find plugin "log@v3.0.0": installed: builtin:log@v1.0.0`,
		"oracle":            `lists the 7 there are; /c/conduit-connector-oracle is not used: it is not executable`,
		"standalone:log":    `cannot find plugin "standalone:log": installed: builtin:log@v1.0.0`,
		"wasm:log":          `prefix "wasm" is none of`,
		"builtin:generator": "",
	} {
		_, err := sampleHost().Find(ref)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q) gave error %v, want one with %q", ref, err, want)
		}
	}
	if _, err := new(plugins.Host).Find("log"); err == nil ||
		err.Error() != `cannot find plugin "log": there are no plugins` {
		t.Errorf("an empty host gave error %v", err)
	}
}

func TestWrongSide(t *testing.T) {
	h := sampleHost()
	_, err := h.Source(t.Context(), "log", "p:c")
	if want := `cannot start source "p:c": plugin builtin:log@v1.0.0 is a destination only`; err == nil ||
		err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	_, err = h.Destination(t.Context(), "generator", "p:c")
	if want := `cannot start destination "p:c": plugin builtin:generator@v1.0.0 is a source only`; err == nil ||
		err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestStandaloneInstance(t *testing.T) {
	s, err := sampleHost().Source(t.Context(), "kafka", "p:c")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.(executable).name.String(); got != "standalone:kafka@v10.0.0" {
		t.Errorf("started %s", got)
	}
}

func TestPanicWhileStarting(t *testing.T) {
	var made int
	h := newHost(sdk.Connector{NewSource: func() sdk.Source {
		if made++; made > 1 {
			panic("no more")
		}
		return &fakeSource{}
	}})
	if _, err := h.Source(t.Context(), "fake", "p:c"); err == nil || !strings.Contains(err.Error(), "panic: no more") {
		t.Errorf("got error %v", err)
	}
	h = newHost(sdk.Connector{NewSource: func() sdk.Source { panic("no specification") }})
	if specs := h.Installed(); len(specs) != 0 {
		t.Errorf("got %v", specs)
	}
}

func TestComplete(t *testing.T) {
	own, plain := sdk.Parameters{"sdk.batch.size": {}}, sdk.Parameters{"path": {}}
	for _, c := range []struct {
		kind                pluginname.Kind
		source, destination sdk.Parameters
		want                bool
	}{
		{pluginname.Builtin, plain, nil, true},
		{pluginname.Standalone, plain, plain, false},
		{pluginname.Standalone, own, nil, true},
		{pluginname.Standalone, nil, own, true},
		{pluginname.Standalone, sdk.Parameters{}, sdk.Parameters{}, false},
	} {
		s := plugins.Installed{Kind: c.kind, Specification: sdk.Specification{Name: "p", Version: "v1.0.0",
			Source: c.source, Destination: c.destination}}
		if got := s.Complete(); got != c.want {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

// A standalone plugin that appears under the name of a running built-in one would be used after a restart.
func TestChangesOfBuiltins(t *testing.T) {
	in, out := &fakeSource{}, &fakeDestination{}
	in.t, out.t = t, t
	h := newHost(sdk.Connector{NewSource: func() sdk.Source { return in },
		NewDestination: func() sdk.Destination { return out }})
	version := h.Builtin[0].Version
	h.Standalone = executables{}
	a, err := h.Source(t.Context(), "fake", connectorID)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.Destination(t.Context(), "builtin:fake", connectorID)
	if err != nil {
		t.Fatal(err)
	}
	if changes := h.Changes(); len(changes) != 0 {
		t.Errorf("at the start: %+v", changes)
	}
	h.Standalone = executables{"fake@v0.1.0"}
	want := "connector orders:db runs builtin:fake@" + version + ", but fake now refers to standalone:fake@v0.1.0; a " +
		"restart of the pipeline uses that one"
	if c := h.Changes(); len(c) != 1 || c[0].Message != want || c[0].Reason != "PluginReplaced" ||
		c[0].Now != "standalone:fake@v0.1.0" {
		t.Errorf("with an executable: %+v, want %q", c, want)
	}
	if err := errors.Join(a.Teardown(t.Context()), b.Teardown(t.Context())); err != nil {
		t.Error(err)
	}
	if changes := h.Changes(); len(changes) != 0 {
		t.Errorf("at the end: %+v", changes)
	}
}
