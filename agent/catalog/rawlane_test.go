package catalog_test

import (
	"errors"
	"maps"
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
	with := func(c spec.Connector, name, value string) spec.Connector {
		c.Settings = maps.Clone(c.Settings)
		c.Settings[name] = value
		return c
	}
	other := spec.Connector{ID: "other", Type: spec.TypeSource, Plugin: "generator"}
	lines := spec.Connector{ID: "out", Type: spec.TypeDestination, Plugin: "file", Settings: raw}
	records := spec.Connector{ID: "log", Type: spec.TypeDestination, Plugin: "log"}
	processors := []spec.Processor{{ID: "p", Plugin: "field.set"}}
	processed, processedSource, conditional := lines, in, lines
	processed.Processors, processedSource.Processors = processors, processors
	conditional.Condition = `{{ eq .Metadata.a "b" }}`
	isolated := lines
	isolated.Isolate = &spec.Isolation{}
	pipeline := func(all ...spec.Connector) spec.Pipeline { return spec.Pipeline{Connectors: all} }
	whole := pipeline(in, lines)
	whole.Processors = processors
	const (
		off     = "off: processors or conditions look at the records"
		gathers = "sdk.batch.size or sdk.batch.delay gathers records"
	)
	for name, one := range map[string]struct {
		p    spec.Pipeline
		want string
	}{
		"on":          {pipeline(in, other, lines), "on"},
		"one of two":  {pipeline(in, records, lines), "on"},
		"no source":   {pipeline(other, lines), ""},
		"a reference": {pipeline(with(in, "path", "${IN}"), with(lines, "path", "${OUT}")), "on"},
		"invalid":     {pipeline(with(in, "start", "middle"), lines), ""},

		"processors":          {whole, off},
		"of the source":       {pipeline(processedSource, lines), off},
		"a condition":         {pipeline(in, conditional), off},
		"groups":              {pipeline(with(in, "multiline.start", "^x"), lines), "off: multiline.start groups the lines"},
		"a batch of a source": {pipeline(with(in, "sdk.batch.size", "9"), lines), "off: " + gathers},
		"a delay of a source": {pipeline(with(in, "sdk.batch.delay", "1s"), lines), "off: " + gathers},
		"isolated":            {pipeline(in, isolated), "off: destination out: its records wait in a log (isolate)"},
		"no lines":            {pipeline(in, records), "off: destination log: its connector has no lines"},
		"own processor":       {pipeline(in, processed), "off: destination out: processors look at the records"},
		"a format": {pipeline(in, with(lines, "sdk.record.format", "opencdc/json")),
			"off: destination out: sdk.record.format is not a template of the payload alone"},
		"a batch": {pipeline(in, with(lines, "sdk.batch.size", "9")), "off: destination out: " + gathers},
		"a delay": {pipeline(in, with(lines, "sdk.batch.delay", "1s")), "off: destination out: " + gathers},
		"a rate": {pipeline(in, with(lines, "sdk.rate.perSecond", "9")),
			"off: destination out: sdk.rate.perSecond limits the rate"},
		"a path that is a template": {pipeline(in, with(lines, "path", "{{ .Operation }}")),
			"off: destination out: path is a template"},
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
