package e2e_test

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// errEnough ends an inspection.
var errEnough = errors.New("enough")

// The input and output of a processor can be inspected while it runs; the available plugins are listed.
func TestProcessorsOverTheAPI(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 100,
		"processors: [{id: mark, plugin: field.set, settings: {field: .Payload.After.mark, value: seen}}]")+
		"        processors: [{id: own, plugin: field.set, settings: {field: .Payload.After.own, value: late}}]\n")
	w.WaitPhase("p", spec.PhaseRunning, 1)
	if body := w.Do("GET", "/v1/processors/plugins", "").Body; !strings.Contains(body, `"name":"builtin:field.set@`) ||
		!strings.Contains(body, `"custom.javascript`) && !strings.Contains(body, `builtin:custom.javascript@`) {
		t.Errorf("the plugins are %.300s", body)
	}
	first := func(path string) string {
		t.Helper()
		line := w.line(path)
		if !strings.Contains(line, `"n":`) {
			t.Fatalf("%s answers %s", path, line)
		}
		return line
	}
	if line := first("/v1/processors/p:mark/inspect-in"); strings.Contains(line, "seen") {
		t.Errorf("before the processor there is %s", line)
	}
	if line := first("/v1/processors/p:mark/inspect-out"); !strings.Contains(line, `"mark":"seen"`) {
		t.Errorf("behind the processor there is %s", line)
	}
	if line := first("/v1/connectors/p:dst/inspect"); !strings.Contains(line, `"mark":"seen"`) {
		t.Errorf("at the destination there is %s", line)
	}
	if line := first("/v1/connectors/p:dst/inspect-in"); !strings.Contains(line, `"mark":"seen"`) ||
		strings.Contains(line, "late") {
		t.Errorf("before the destination's processors there is %s", line)
	}
	if line := first("/v1/connectors/p:dst/inspect-out"); !strings.Contains(line, `"own":"late"`) {
		t.Errorf("behind the destination's processors there is %s", line)
	}
	err := w.API.InspectIn(t.Context(), "p:dst", nil, func(m client.Message) error {
		if text := string(m.Result); strings.Contains(text, "late") || !strings.Contains(text, "seen") {
			t.Errorf("the client sees %s", text)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	for path, status := range map[string]int{"p:src/inspect-in": http.StatusBadRequest,
		"p:src/inspect-out": http.StatusBadRequest, "p:none/inspect-in": http.StatusNotFound} {
		if got := w.Do("GET", "/v1/connectors/"+path, ""); got.Status != status {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if line := first("/v1/connectors/p:dst/inspect-in"); strings.Contains(line, "seen") {
		t.Errorf("without processors there comes %s", line)
	}
	for _, side := range []string{"in", "out"} {
		if got := w.Do("GET", "/v1/processors/p:none/inspect-"+side, ""); got.Status != http.StatusNotFound {
			t.Errorf("inspect-%s of none: %d %s", side, got.Status, got.Body)
		}
	}
	const misspelled = `{"plugin":"field.sett","parent":{"type":"TYPE_PIPELINE","id":"p"},"config":{"settings":{}}}`
	if got := w.Do("POST", "/v1/processors", misspelled); got.Status == 200 {
		t.Errorf("a file's pipeline took a processor: %s", got.Body)
	}
}

// line returns the first line of a stream that contains a record.
func (w *web) line(path string) string {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, w.API.URL+path, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	defer answer.Body.Close()
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		if strings.Contains(in.Text(), `"result"`) {
			return in.Text()
		}
	}
	w.T.Fatalf("%s: %d and no record", path, answer.StatusCode)
	return ""
}
