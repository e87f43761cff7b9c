package spec_test

import (
	"maps"
	"strings"
	"testing"
	"unicode"

	"github.com/conduit-agent/conduit/spec"
)

// TestValue reads the values that differ between two versions.
func TestValue(t *testing.T) {
	old := &spec.Pipeline{ID: "p", Status: spec.StatusRunning, Name: "n",
		Connectors: []spec.Connector{{ID: "in", Type: spec.TypeSource, Plugin: "generator",
			Settings: map[string]string{"a/b~c": "1", "gone": ""},
			Processors: []spec.Processor{{ID: "x", Plugin: "field.set", Workers: 1,
				Settings: map[string]string{"field": "f"}}}}},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "log", WindowSize: 1_000_000}}
	now := old.Clone()
	now.Name, now.Status, now.Description = "m", spec.StatusStopped, "d"
	now.Connectors[0].Settings = map[string]string{"a/b~c": "2", "new": "<&>"}
	now.Connectors[0].Processors[0].Workers, now.Connectors[0].Processors[0].Settings = 3,
		map[string]string{"field": "g"}
	now.Connectors = append(now.Connectors, spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "log"})
	now.DeadLetterQueue.WindowSize = 2_000_000
	want := map[string][2]string{
		"/status": {"running", "stopped"}, "/name": {"n", "m"}, "/description": {"-", "d"},
		"/connectors/in/settings/a~1b~0c": {"1", "2"}, "/connectors/in/settings/gone": {"", "-"},
		"/connectors/in/settings/new":         {"-", "<&>"},
		"/connectors/in/processors/x/workers": {"1", "3"}, "/connectors/in/processors/x/settings/field": {"f", "g"},
		"/connectors/out": {"-", "-"}, "/dead-letter-queue/window-size": {"1000000", "2000000"},
	}
	text := func(p *spec.Pipeline, path string) string {
		if value, ok := spec.Value(p, path); ok {
			return value
		}
		return "-"
	}
	changes := spec.Diff(old, now)
	if len(changes) != len(want) {
		t.Errorf("%d changes, want %d: %v", len(changes), len(want), changes)
	}
	for _, c := range changes {
		if got := [2]string{text(old, c.Path), text(now, c.Path)}; got != want[c.Path] {
			t.Errorf("%s: %q, want %q", c.Path, got, want[c.Path])
		}
	}
	for _, path := range []string{"", "/", "/connectors", "/connectors/other/plugin", "/name/x", "/nothing"} {
		if value, ok := spec.Value(old, path); ok {
			t.Errorf("%q leads to %q", path, value)
		}
	}
	if value, ok := spec.Value(nil, "/name"); ok {
		t.Errorf("no pipeline has the name %q", value)
	}
}

// Invisible characters, and characters that change the direction of text, are escaped everywhere in a file that the
// agent writes. Reading the file restores them.
func TestMarshalEscapesWhatCannotBeSeen(t *testing.T) {
	const unseen = "a\u202eb\u2066c\u200b\u00ad\u061c\u2028\ufeff\u0085\u009b\u007f\U000e0041\u00a0\u2003ü\U0001f600 " +
		"'\"\\\n# x: y"
	p := spec.Pipeline{ID: "p", Name: unseen, Description: unseen,
		Connectors: []spec.Connector{{ID: "in", Type: spec.TypeSource,
			Plugin: "file", Name: unseen, Settings: map[string]string{"path": unseen, "a\u202eb\u200b": "x",
				"long": strings.Repeat(unseen+" ", 50)}},
			{ID: "out", Type: spec.TypeDestination, Plugin: "log"}}}
	file := spec.Marshal(p)
	for _, r := range string(file) {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("the file has %q", r)
		}
	}
	parsed := spec.ParseExport(file)
	got := parsed.Pipelines
	if len(got) != 1 {
		t.Fatalf("%d pipelines, %v, in\n%s", len(got), parsed.Problems, file)
	}
	read := got[0].Pipeline
	c := read.Connectors[0]
	if read.Name != unseen || read.Description != unseen || c.Name != unseen ||
		!maps.Equal(c.Settings, p.Connectors[0].Settings) {
		t.Errorf("read as %+v of\n%s", read, file)
	}
}
