package api_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// checkpoints implements the checkpoints of a world.
type checkpoints struct{ *world }

func (c checkpoints) Checkpoint(_ context.Context, id string) (*spec.Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.positions[id] == nil {
		return nil, nil
	}
	return &spec.Checkpoint{ConnectorID: id, Plugin: "generator", Position: c.positions[id], Epoch: 1, Sequence: 7}, nil
}

func (c checkpoints) MoveCheckpoint(
	_ context.Context, d *spec.Declaration, to spec.Checkpoint, before record.Position, e spec.Event,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if string(c.positions[to.ConnectorID]) != string(before) || to.PipelineID != d.Pipeline.ID {
		return fmt.Errorf("%s: %w", to.ConnectorID, spec.ErrConflict)
	}
	c.positions[to.ConnectorID] = to.Position
	c.events = append(c.events, e)
	return nil
}

func TestPosition(t *testing.T) {
	w := newWorld(t)
	for id, status := range map[string]spec.Status{"still": spec.StatusStopped, "busy": spec.StatusRunning} {
		p := pipelineOf(id, status)
		p.Connectors[0].ID = "in"
		if err := w.ApplyIf(t.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p}}}, nil); err != nil {
			t.Fatal(err)
		}
		w.positions[id+":in"] = record.Position("41")
	}
	s := newServer(w)
	s.Positions = checkpoints{w}
	h := s.Handler()
	etag := do(h, "GET", "/v1/connectors/still:in/position", "").header.Get("ETag")
	body := func(n int) string {
		return `{"position":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("4", n))) + `"}`
	}
	for _, c := range []struct {
		method, id, body, match string
		want                    int
		reason, text            string
	}{
		{"GET", "still:in", "", "", 200, "", `"position":"NDE=","savedBy":"generator","epoch":1,"records":7`},
		{"GET", "still:in?to=Mg%3D%3D", "", "", 200, "",
			`"consequence":"From 2 it delivers the records in between again (2 instead of 41)."`},
		{"GET", "still:in?to=", "", "", 200, "", `"consequence":"Without a position the source starts`},
		{"GET", "still:in?to=%21", "", "", 400, spec.CodeInvalid, "base64"},
		{"GET", "still:none", "", "", 404, rest.ReasonConnectorNotFound, ""},
		{"PUT", "busy:in", body(2), "", 400, rest.ReasonPipelineRunning, "stop the pipeline first"},
		{"DELETE", "busy:in", "", "", 400, rest.ReasonPipelineRunning, ""},
		{"PUT", "still:in", `{}`, "", 400, spec.CodeRequired, ""},
		{"PUT", "still:in", body(record.MaxPosition + 1), "", 400, spec.CodeInvalid, "65537 bytes"},
		{"PUT", "still:in", body(2), `"other"`, 412, rest.ReasonChanged, ""},
		{"PUT", "still:in", body(2), etag, 200, "", `"position":"NDQ="`},
		{"DELETE", "still:in", "", etag, 412, rest.ReasonChanged, ""},
		{"DELETE", "still:in", "", "", 200, "", `{"connectorId":"still:in","pipelineId":"still","plugin":`},
		{"GET", "busy:in", "", "", 200, "", `"position":"NDE="`},
	} {
		id, query, _ := strings.Cut(c.id, "?")
		got := do(h, c.method, "/v1/connectors/"+id+"/position?"+query, c.body, "If-Match", cmp.Or(c.match, "*"))
		if got.status != c.want || c.reason != "" && got.reason() != c.reason ||
			!strings.Contains(string(got.body), c.text) {
			t.Errorf("%s %s %.30s: %d %s, want %d %s %s", c.method, c.id, c.body, got.status, got.body, c.want,
				c.reason, c.text)
		}
	}
	if n := len(w.events); n < 2 || w.events[n-2].Message != `source in resumes from "44", no longer from "41"` ||
		w.events[n-1].Reason != "PositionReset" {
		t.Errorf("events %v", w.events)
	}
}

func TestConsequenceOfMovingAPosition(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("still", spec.StatusStopped)
	p.Connectors[0].ID = "in"
	if err := w.ApplyIf(t.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p}}}, nil); err != nil {
		t.Fatal(err)
	}
	s := newServer(w)
	s.Positions = checkpoints{w}
	h := s.Handler()
	const unknown = "only the plugin can compare them."
	tests := []struct{ name, from, to, want string }{
		{"a number back", "6;3;x", "2", "From 2 it delivers the records in between again (2 instead of 6)."},
		{"a number on", "6", "9;1", "From 9;1 it skips the records in between (9 instead of 6)."},
		{
			"fields back", `{"file":"a","offset":120}`, `{"file":"a","offset":20}`,
			"it delivers the records in between again (offset 20 instead of 120).",
		},
		{"fields both ways", `{"a":1,"b":2}`, `{"a":2,"b":1}`, unknown},
		{"fields that there were not", `{"a":1}`, `{"b":1}`, unknown},
		{
			"text", "abc", "abd",
			"From abd " + "it delivers the records in between again if the position is earlier, and skips them if it " +
				"is later: " +
				unknown,
		},
		{"bytes", "\x00\x01", "\x00\x02", "From base64 AAI= it delivers the records"},
		{"bytes that are no text", "1", "\xff", "From base64 /w== "},
		{"from the beginning", "", "7", "From 7 it delivers the records in between again if the position is earlier, " +
			"and skips them"},
		{"none", "6", "", "Without a position the source starts as its settings say"},
		{"none of none", "", "", "so there is nothing to reset."},
		{"the same", "6", "6", "The source already resumes from this position."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.positions["still:in"] = record.Position(tt.from)
			query := url.Values{"to": {base64.StdEncoding.EncodeToString([]byte(tt.to))}}
			got := do(h, "GET", "/v1/connectors/still:in/position?"+query.Encode(), "")
			var body rest.Position
			if err := json.Unmarshal(got.body, &body); err != nil || got.status != 200 {
				t.Fatalf("%d %s, error %v", got.status, got.body, err)
			}
			if !strings.Contains(body.Consequence, tt.want) {
				t.Errorf("got %q, want %q in it", body.Consequence, tt.want)
			}
		})
	}
}
