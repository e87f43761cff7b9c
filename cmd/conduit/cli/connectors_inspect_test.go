package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func TestInspectedRecordsForPeople(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"text": {`{"position":"NDI=","operation":"OPERATION_CREATE","metadata":{"b":"2","a":"1"},` +
			`"key":{"rawData":"azE="},"payload":{"before":null,"after":{"rawData":"aGVsbG8Kd29ybGQK"}}}`,
			"record 7: create\n  position  42\n  metadata  a = 1\n            b = 2\n  key       k1\n" +
				"  after     hello\n            world\n\n"},
		"structured": {`{"position":"NDI=","operation":"OPERATION_UPDATE","metadata":{},"key":null,"payload":` +
			`{"before":{"structuredData":{"b":12345678901234567890,"a":1}},"after":{"rawData":"eyJhIjoyfQ=="}}}`,
			"record 7: update\n  position  42\n  before    {\n              \"b\": 12345678901234567890,\n" +
				"              \"a\": 1\n            }\n  after     {\n              \"a\": 2\n            }\n\n"},
		"bytes": {`{"position":"AP8=","operation":"OPERATION_DELETE","metadata":{},"key":{},"payload":{"before":null,` +
			`"after":{"rawData":"G1sz"}}}`,
			"record 7: delete\n  position  00 ff (2 bytes, not text)\n  key\n" +
				"  after     1b 5b 33 (3 bytes, not text)\n\n"},
	} {
		var b bytes.Buffer
		if err := writeRecord(&b, 7, []byte(c.record), func(text, _ string) string { return text }); err != nil ||
			b.String() != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", name, err, b.String(), c.want)
		}
	}
}

func TestInspectorExplainsSilence(t *testing.T) {
	running := spec.State{Phase: spec.PhaseRunning}
	rates := func(stage spec.StageRates, series ...float64) *spec.PipelineRates {
		return &spec.PipelineRates{Stages: map[string]spec.StageRates{"p:in": stage}, Series: series}
	}
	for want, c := range map[string]struct {
		status   rest.PipelineStatus
		filtered bool
	}{
		"was stopped manually at": {rest.PipelineStatus{Override: spec.StatusStopped,
			State: spec.State{Phase: spec.PhaseStopped, Since: time.Unix(1, 0)}}, false},
		"declared stopped": {rest.PipelineStatus{Declared: spec.StatusStopped,
			State: spec.State{Phase: spec.PhaseStopped}}, false},
		"degraded: no such file": {rest.PipelineStatus{State: spec.State{Phase: spec.PhaseDegraded,
			Error: "no such file"}}, false},
		"will be retried: refused": {rest.PipelineStatus{State: spec.State{Phase: spec.PhaseRecovering,
			Error: "refused"}}, false},
		"is starting":          {rest.PipelineStatus{State: spec.State{Phase: spec.PhaseStarting}}, false},
		"on cluster member m2": {rest.PipelineStatus{Placement: &spec.Assignment{Member: "m2"}}, false},
		"no longer declared":   {rest.PipelineStatus{Withdrawn: &time.Time{}}, false},
		"has no rates yet":     {rest.PipelineStatus{State: running}, false},
		"p:in: no record yet": {rest.PipelineStatus{State: running,
			Rates: rates(spec.StageRates{Waiting: "no record yet"})}, false},
		"no filter matches them": {rest.PipelineStatus{State: running, Rates: rates(spec.StageRates{Records: 3})},
			true},
		"waits for out": {rest.PipelineStatus{State: running,
			Rates: rates(spec.StageRates{Slow: "in waits for out"})}, false},
		"have read nothing since": {rest.PipelineStatus{State: running, Rates: rates(spec.StageRates{}, 1, 0, 0)},
			false},
		"read nothing for minutes": {rest.PipelineStatus{State: running, Rates: rates(spec.StageRates{}, 0, 0)}, false},
	} {
		if got := silence(&c.status, "p:in", c.filtered, new(time.Time)); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The computed time of a second in the series depends on the time of the request. Times of the same second are shown as
// one, to the second.
func TestInspectorShowsIdleTime(t *testing.T) { synctest.Test(t, testInspectorShowsIdleTime) }

func testInspectorShowsIdleTime(t *testing.T) {
	status := func(series ...float64) *rest.PipelineStatus {
		return &rest.PipelineStatus{ID: "p", State: spec.State{Phase: spec.PhaseRunning},
			Rates: &spec.PipelineRates{Stages: map[string]spec.StageRates{"p:in": {}}, Series: series}}
	}
	var idle time.Time
	first := silence(status(1, 0, 0), "p:in", false, &idle)
	if ago := time.Since(idle); ago != 2*time.Second ||
		!strings.HasSuffix(first, terminal.Moment(idle)) {
		t.Errorf("%s; it was %s ago", first, ago)
	}
	idle = idle.Add(-time.Second)
	was := idle
	if again := silence(status(1, 0, 0), "p:in", false, &idle); idle != was ||
		!strings.HasSuffix(again, terminal.Moment(was)) {
		t.Errorf("%s after %s", again, was)
	}
	if later := silence(status(1), "p:in", false, &idle); !idle.After(was) ||
		!strings.HasSuffix(later, terminal.Moment(idle)) {
		t.Errorf("%s after %s", later, was)
	}
	passing := status(1, 0, 0)
	passing.Rates.Stages["p:in"] = spec.StageRates{Records: 0.2}
	if got := silence(passing, "p:in", false, &idle); got != "" {
		t.Errorf("of a connector that records passed a moment ago: %s", got)
	}
}
