package ui_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// The page of a pipeline says of the source that lines pass on the raw lane, or for which reason they do not.
func TestUIRawLane(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "one\ntwo\n")
	const (
		processors = "processors: [{id: set, plugin: field.set, settings: {field: .Metadata.a, value: b}}]"
		looks      = "off: processors or conditions look at the records"
		gathers    = ": sdk.batch.size or sdk.batch.delay gathers records"
	)
	all := []struct {
		source, path, format, destination string // settings
		pipeline, in, out                 string // YAML of the pipeline and its connectors
		want                              string // ID is the id of the pipeline
	}{
		{want: "on"},
		{source: "multiline.start: ^x", want: "off: source ID:in: multiline.start groups the lines"},
		{source: "sdk.batch.size: 9", want: "off: source ID:in" + gathers},
		{in: processors, want: looks},
		{pipeline: processors, want: looks},
		{out: `condition: '{{ eq .Metadata.a "b" }}'`, want: looks},
		{out: processors, want: "off: processors look at the records for ID:out"},
		{destination: "sdk.batch.delay: 1s", want: "off: destination ID:out" + gathers},
		{destination: "sdk.rate.perSecond: 9", want: "off: destination ID:out: sdk.rate.perSecond limits the rate"},
		{format: "sdk.record.format: opencdc/json",
			want: "off: destination ID:out: sdk.record.format is not a template of the payload alone"},
		{path: "{{ .Operation }}.txt", want: "off: destination ID:out: path is a template"},
	}
	for i, one := range all {
		id := fmt.Sprint("p", i)
		format := cmp.Or(one.format, `sdk.record.format: template, sdk.record.format.options: "{{ .Payload.After }}"`)
		w.Save(id+".yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %s
    status: running
    %s
    connectors:
      - id: in
        type: source
        plugin: builtin:file
        settings: {path: '%s', %s}
        %s
      - id: out
        type: destination
        plugin: builtin:file
        settings: {path: '%s', %s, %s}
        %s
`, id, one.pipeline, w.Path("in.log"), one.source, one.in, w.Path(cmp.Or(one.path, id)), format, one.destination,
			one.out))
	}
	var p *page
	for i, one := range all {
		id := fmt.Sprint("p", i)
		w.WaitPhase(id, spec.PhaseRunning, 1)
		if p == nil {
			p = openPage(t, w.API.URL, "pipelines/"+id)
		}
		p.showsRawLane(id, strings.ReplaceAll(one.want, "ID", id))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.API.Inspect(ctx, "p0:in", nil, func(client.Message) error { return nil }) }()
	p.showsRawLane("p0", "off: an inspector looks at the records of p0:in")
	stop()
	<-ended
	p.rawLaneIs("on")
}

// showsRawLane opens the page of a pipeline, and waits until it says of the source that the raw lane is in the state.
func (p *page) showsRawLane(id, state string) {
	p.t.Helper()
	p.eval(`location.hash = ` + quoted("#/pipelines/"+id))
	p.until("the source of "+id+" cannot be chosen", `document.querySelector("h1").innerText === `+quoted(id)+` &&
		!!document.querySelector(".node.source")`)
	p.eval(`document.querySelector(".node.source").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	p.rawLaneIs(state)
}

// rawLaneIs waits until the facts of the chosen source have the state of the raw lane.
func (p *page) rawLaneIs(state string) {
	p.t.Helper()
	p.until("the raw lane is not "+state, `[...document.querySelectorAll("dt")].some((x) =>
		x.innerText === "Raw lane" && x.nextElementSibling.innerText === `+quoted(state)+`)`)
}
