package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// Of each source of lines the plan says whether the raw lane is on, or why not.
func TestRawLane(t *testing.T) {
	c := offline(t)
	raw := map[string]string{"path": "out", "sdk.record.format": "template",
		"sdk.record.format.options": `{{ printf "%s" .Payload.After }}`}
	in := spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: "file", Settings: map[string]string{"path": "in.log"}}
	groups := in
	groups.Settings = map[string]string{"path": "in.log", "multiline.start": "^x"}
	other := spec.Connector{ID: "other", Type: spec.TypeSource, Plugin: "generator"}
	lines := spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "file", Settings: raw}
	records := spec.Connector{ID: "log", Type: spec.TypeDestination, Plugin: "log"}
	processors := []spec.Processor{{ID: "p", Plugin: "field.set"}}
	processed := lines
	processed.Processors = processors
	of := func(all ...spec.Connector) []spec.Connector { return all }
	const off = "off: processors or conditions look at the records"
	for name, one := range map[string]struct {
		p    spec.Pipeline
		want string
	}{
		"on":         {spec.Pipeline{Connectors: of(in, other, lines)}, "on"},
		"one of two": {spec.Pipeline{Connectors: of(in, records, lines)}, "on"},
		"no source":  {spec.Pipeline{Connectors: of(other, lines)}, ""},
		"processors": {spec.Pipeline{Connectors: of(in, lines), Processors: processors}, off},
		"no lines":   {spec.Pipeline{Connectors: of(in, records)}, "off: destination log: its connector has no lines"},
		"own processor": {spec.Pipeline{Connectors: of(in, processed)},
			"off: destination out: processors look at the records"},
		"groups": {spec.Pipeline{Connectors: of(groups, lines)}, "off: multiline.start groups the lines"},
	} {
		got := c.RawLane(t.Context(), &one.p)
		if got["in"] != one.want || len(got) > 1 {
			t.Errorf("%s: %v, want %s", name, got, one.want)
		}
	}
}

// A plan has the notes of sources whose settings are known.
func TestNotes(t *testing.T) {
	in := func(settings map[string]string) spec.Connector {
		return spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: "file", Settings: settings}
	}
	const missing = "there is no file /no/such"
	for name, one := range map[string]struct {
		c    spec.Connector
		want string
	}{
		"file":      {in(map[string]string{"path": "/no/such"}), missing},
		"reference": {in(map[string]string{"path": "/no/such", "multiline.start": "${START}"}), ""},
		"invalid":   {in(map[string]string{"path": "/no/such", "start": "middle"}), ""},
		"other":     {spec.Connector{ID: "in", Type: spec.TypeSource, Plugin: "generator"}, ""},
		"destination": {spec.Connector{ID: "in", Type: spec.TypeDestination, Plugin: "file",
			Settings: map[string]string{"path": "/no/such"}}, ""},
	} {
		got := offline(t).Notes(t.Context(), &spec.Pipeline{Connectors: []spec.Connector{one.c}})
		if strings.Join(got["in"], "\n") != one.want {
			t.Errorf("%s: got %q, want %q", name, got, one.want)
		}
	}
	c := offline(t)
	c.Host.AllowPath = func(string) error { return errors.New("not allowed") }
	if got := c.Notes(t.Context(), &spec.Pipeline{Connectors: []spec.Connector{in(map[string]string{
		"path": "/no/such"})}}); got != nil {
		t.Errorf("it tells of a file that may not be read: %q", got)
	}
}
