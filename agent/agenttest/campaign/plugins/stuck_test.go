package plugins_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// A forced stop does not wait for a destination that never answers, whether it is forced at once or after a wait.
// Nothing is lost.
func TestForcedStop(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "chaos")
	w := agenttest.StartWeb(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = time.Hour })
	stuck := func() {
		t.Helper()
		w.Wait("records that are not answered", func() bool {
			return agenttest.Scrape(t, w.Agent,
				`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage="read"}`) > 20
		})
	}
	w.Must("POST", "/v1/pipelines", `{"id":"p","config":{"name":"p"}}`, nil)
	w.Must("POST", "/v1/connectors", `{"id":"src","type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":"p",
		"config":{"settings":{"rate":"1000","format.type":"structured","format.options.n":"int"}}}`, nil)
	w.Must("POST", "/v1/connectors",
		`{"id":"dst","type":"TYPE_DESTINATION","plugin":"chaos","pipelineId":"p","config":{"settings":{"mode":"hang"}}}`, nil)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	stuck()
	w.Must("POST", "/v1/pipelines/p/stop", `{"force":true}`, nil)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	stuck()
	if got := w.Do("POST", "/v1/pipelines/p/stop?wait=100ms", ""); got.Status != http.StatusGatewayTimeout {
		t.Errorf("a stop in vain: %d %s", got.Status, got.Body)
	}
	w.Must("POST", "/v1/pipelines/p/stop", `{"force":true}`, nil)
	w.Must("PUT", "/v1/connectors/p:dst",
		fmt.Sprintf(`{"plugin":"builtin:file","config":{"settings":{"path":%q}}}`, w.Path("p.jsonl")), nil)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	w.More(t, "p")
	w.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, w.Path("p.jsonl")))
}

// stuck never returns from the call that it is stuck in, and ignores its context.
type stuck struct{ in string }

func (*stuck) Parameters() sdk.Parameters { return sdk.Parameters{"in": {Type: sdk.TypeString}} }

func (s *stuck) Configure(_ context.Context, settings map[string]string) error {
	s.in = settings["in"]
	return nil
}

func (s *stuck) call(name string) {
	if s.in == name {
		select {}
	}
}

func (s *stuck) Teardown(context.Context) error { return nil }

type stuckSource struct {
	sdk.SourceBase
	stuck
	n int
}

func (s *stuckSource) Parameters() sdk.Parameters { return s.stuck.Parameters() }

func (s *stuckSource) Configure(ctx context.Context, settings map[string]string) error {
	return s.stuck.Configure(ctx, settings)
}

func (s *stuckSource) Open(context.Context, record.Position) error { s.call("Open"); return nil }

func (s *stuckSource) Ack(context.Context, []record.Position) error {
	s.call("Ack")
	return nil
}

func (s *stuckSource) Teardown(context.Context) error { return nil }

// Read returns records with long positions, so that few acknowledgements fill the buffers of a connection.
func (s *stuckSource) Read(ctx context.Context) ([]record.Record, error) {
	if s.in == "Read" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.n++
	return []record.Record{{Position: record.Position(strconv.Itoa(s.n) + strings.Repeat(".", 1<<14)),
		Operation: record.OperationCreate, After: record.Raw([]byte("x"))}}, nil
}

type stuckDestination struct {
	sdk.DestinationBase
	stuck
}

func (d *stuckDestination) Parameters() sdk.Parameters { return d.stuck.Parameters() }

func (d *stuckDestination) Configure(ctx context.Context, settings map[string]string) error {
	return d.stuck.Configure(ctx, settings)
}

func (d *stuckDestination) Open(context.Context) error { d.call("Open"); return nil }

func (d *stuckDestination) Write(_ context.Context, records []record.Record) (int, error) {
	d.call("Write")
	return len(records), nil
}

func (d *stuckDestination) Teardown(context.Context) error { return nil }

// The status names the stage of an executable that does not return from a call, with the call and its start, and marks
// no other stage as slow. An open source without records is no fault.
func TestStuckExecutablesAreNamed(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "stuck")
	a := agenttest.StartWired(t, dir, agenttest.Hasty, func(c *config.Config) {
		c.Shutdown.Timeout = 100 * time.Millisecond
	})
	t.Cleanup(func() { // otherwise the agent waits half a minute for their calls
		for _, pid := range agenttest.Children(os.Getpid()) {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil &&
				strings.Contains(string(env), "JOURNAL="+dir+"/") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	w := &agenttest.Web{Agent: a, T: t, API: &client.Client{URL: "http://" + a.Address()}}
	const ticks = `plugin: generator, settings: {format.type: structured, format.options.name: string, rate: "20"}`
	var file strings.Builder
	file.WriteString("version: \"2.2\"\npipelines:\n")
	add := func(id, source, destination string) {
		fmt.Fprintf(&file, "  - id: %s\n    connectors:\n      - {id: in, type: source, %s}\n      - {id: out, type: "+
			"destination, %s}\n", id, source, destination)
	}
	tests := map[string]struct{ source, destination, stage, message, slow string }{
		"source-open":       {"Open", "", "in", "it has not opened yet", "out waits for in"},
		"source-ack":        {"Ack", "", "in", "it has not returned from an acknowledgement", "out waits for in"},
		"destination-open":  {"", "Open", "out", "it has not opened yet", "in waits for out"},
		"destination-write": {"", "Write", "out", "it has not responded, and records are waiting", "in waits for out"},
		"silent":            {source: "Read"},
	}
	for id, test := range tests {
		source, destination := ticks, "plugin: log"
		if test.source != "" {
			source = fmt.Sprintf("plugin: stuck, settings: {in: %s}", test.source)
		}
		if test.destination != "" {
			destination = fmt.Sprintf("plugin: stuck, settings: {in: %s}", test.destination)
		}
		add(id, source, destination)
	}
	a.Save("all.yaml", file.String())
	const waiting = "no record yet, open since "
	for id, test := range tests {
		var status rest.PipelineStatus
		var stages map[string]spec.StageRates
		a.Wait("the status of "+id, func() bool {
			if status = (rest.PipelineStatus{}); a.State(id).PipelineID == "" {
				return false // the file was not read yet
			}
			w.Must("GET", "/v1/pipelines/"+id+"/status", "", &status)
			if status.Rates == nil {
				return false
			}
			stages = status.Rates.Stages
			if test.stage == "" {
				return strings.HasPrefix(stages[id+":in"].Waiting, waiting)
			}
			s := a.State(id).Stall
			return s != nil && s.Stage == id+":"+test.stage && !s.Since.IsZero() &&
				strings.Contains(s.Message, test.message) && stages[s.Stage].Slow == test.slow &&
				stages[s.Stage].Since != nil
		})
		for stage, one := range stages {
			if one.Slow != "" && stage != id+":"+test.stage {
				t.Errorf("%s: the status says of %s: %s", id, stage, one.Slow)
			}
		}
		if got := stages[id+":in"].Waiting; test.source == "Open" && got != "" {
			t.Errorf("%s: the source that does not open has %q", id, got)
		}
		if s := a.State(id); test.stage == "" && (s.Stall != nil || s.Phase != spec.PhaseRunning) {
			t.Errorf("%s is %s with %+v", id, s.Phase, s.Stall)
		}
	}
}
