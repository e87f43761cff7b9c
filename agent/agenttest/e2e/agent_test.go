package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/spec"
)

// The engine detects this interface of a destination by a type assertion.
var _ connector.StopAndWaiter = (*standalone.Destination)(nil)

// TestFullDiskIsWaitedFor writes to a full disk until space is free: no record is refused.
func TestFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]string{"default": "",
		"tolerant": `dead-letter-queue: {plugin: builtin:file, settings: {path: "%s"}, window-size: 0}`} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.Start(t, "")
			deadLetters := a.Path("dead-letters.jsonl")
			if queue != "" {
				queue = fmt.Sprintf(queue, deadLetters)
			}
			if err := os.Symlink("/dev/full", a.Path("p.jsonl")); err != nil {
				t.Fatal(err)
			}
			a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, queue))
			a.Wait("it to fail again", func() bool {
				return a.State("p").Phase == spec.PhaseRecovering && a.State("p").Failures > 1
			})
			if err := os.Remove(a.Path("p.jsonl")); err != nil {
				t.Fatal(err)
			}
			a.Wait("records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > 10 })
			a.Stop()
			for i, n := range agenttest.Numbers(t, a.Path("p.jsonl")) {
				if n != i+1 {
					t.Fatalf("record %d is number %d", i+1, n)
				}
			}
			if b, err := os.ReadFile(deadLetters); len(b) > 0 || err != nil && queue != "" {
				t.Errorf("dead letters %q, %v", b, err)
			}
		})
	}
}

func TestSavingAFileChangesThatPipelineOnly(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	a.Save("one.yaml", agenttest.Generated(a.Dir, "one", 1000, ""))
	a.Save("two.yaml", agenttest.Generated(a.Dir, "two", 1000, ""))
	a.WaitPhase("one", spec.PhaseRunning, 1)
	a.WaitPhase("two", spec.PhaseRunning, 1)
	since := a.State("two").Since

	a.Save("one.yaml", agenttest.Generated(a.Dir, "one", 2000, ""))
	a.WaitPhase("one", spec.PhaseRunning, 2)
	if s := a.State("two"); s.RunningGeneration != 1 || !s.Since.Equal(since) {
		t.Errorf("the other pipeline is now %+v", s)
	}
	before := agenttest.LinesIn(t, a.Path("two.jsonl"))
	a.Wait("more records of the other pipeline", func() bool {
		return agenttest.LinesIn(t, a.Path("two.jsonl")) > before
	})
	a.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path("one.jsonl")))
	agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path("two.jsonl")))
}

func TestABrokenFileChangesNothingButTheStatus(t *testing.T) {
	t.Setenv("RATE_OF_TEST", "fast")
	a := agenttest.Start(t, "")
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	for name, broken := range map[string]string{
		"syntax":  "version: \"2.2\"\npipelines:\n  - id: [",
		"plugin":  strings.Replace(agenttest.Generated(a.Dir, "p", 5, ""), "builtin:file", "builtin:fil", 1),
		"setting": strings.Replace(agenttest.Generated(a.Dir, "p", 5, ""), "rate: 5", "rate: fast", 1),
		"value":   strings.Replace(agenttest.Generated(a.Dir, "p", 5, ""), "rate: 5", "rate: '${RATE_OF_TEST}'", 1),
		"empty":   "",
	} {
		t.Run(name, func(t *testing.T) {
			a.Save("p.yaml", broken)
			a.Wait("the problem to be reported", func() bool {
				files, err := a.Store.FileStates(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				attempt := a.State("p").LastAttempt
				if name == "syntax" || name == "empty" {
					return len(files) == 1 && len(files[0].Problems) > 0
				}
				return attempt != nil && attempt.Error != ""
			})
			before := agenttest.LinesIn(t, a.Path("p.jsonl"))
			a.Wait("more records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > before })
			if s := a.State("p"); s.Phase != spec.PhaseRunning {
				t.Errorf("the pipeline is now %+v", s)
			}
			if s := a.State("p"); (name == "setting" || name == "value") &&
				!strings.HasPrefix(s.LastAttempt.Error, "p.yaml:9:26: ") ||
				name == "plugin" && !strings.HasPrefix(s.LastAttempt.Error, "p.yaml:12:17: ") {
				t.Errorf("the error does not say where: %s", s.LastAttempt.Error)
			}
			good, err := a.Store.Declarations(t.Context())
			if err != nil || len(good) != 1 {
				t.Fatalf("declarations %v, error %v", good, err)
			}
			a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
			a.Wait("the problem to be gone", func() bool {
				files, _ := a.Store.FileStates(t.Context())
				attempt := a.State("p").LastAttempt
				return len(files) == 1 && len(files[0].Problems) == 0 && attempt != nil && attempt.Error == ""
			})
		})
	}
	a.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path("p.jsonl")))
}

func TestLastGoodSurvivesARestartWithABrokenFile(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.Wait("records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > 10 })
	a.Save("p.yaml", "version: \"2.2\"\npipelines:\n  - id: [")
	a.Stop()
	n := agenttest.LinesIn(t, a.Path("p.jsonl"))
	b := agenttest.Start(t, a.Dir)
	b.Wait("more records", func() bool { return agenttest.LinesIn(t, b.Path("p.jsonl")) > n+10 })
	b.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, b.Path("p.jsonl")))
}

func TestGracefulStopsRepeatNothing(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	out := filepath.Join(dir, "p.jsonl")
	var size int64
	for range 5 {
		a := agenttest.Start(t, dir)
		a.Save("p.yaml", agenttest.Generated(dir, "p", 20000, ""))
		// The test measures size, not time: on a busy machine, parsing so many records takes longer than writing them.
		a.Wait("more records", func() bool { return agenttest.FileSize(out) > size+200_000 })
		a.Stop()
		size = agenttest.FileSize(out)
	}
	agenttest.WantConsecutive(t, agenttest.Numbers(t, out))
}

func TestStatusAndDeletion(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "", func(c *config.Config) {
		c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 50*time.Millisecond, 50*time.Millisecond
	})
	a.Save("other.yaml", agenttest.Generated(a.Dir, "other", 10, ""))
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRunning, 0)
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, "status: stopped"))
	a.WaitPhase("p", spec.PhaseStopped, 0)
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, "status: running"))
	a.WaitPhase("p", spec.PhaseRunning, 0)
	if err := os.Remove(a.Path("pipelines/p.yaml")); err != nil {
		t.Fatal(err)
	}
	a.Wait("the pipeline to be forgotten", func() bool {
		d, err := a.Store.Declarations(t.Context())
		return err == nil && len(d) == 1 && a.State("p").PipelineID == ""
	})
	a.WaitPhase("other", spec.PhaseRunning, 1)
	if n := strings.Count(a.Log(), `"msg":"pipeline runs","component":"reconcile","pipeline_id":"other"`); n != 1 {
		t.Errorf("the other pipeline was started %d times", n)
	}
	agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path("p.jsonl")))
}

// A pipeline whose destination cannot be opened starts working as soon as the file is corrected.
func TestFailuresAreMendedByASave(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MinDelay = time.Hour })
	a.Save("p.yaml", agenttest.Generated(a.Dir+"/missing", "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRecovering, 0)
	if s := a.State("p"); !strings.Contains(s.Error, "missing") {
		t.Errorf("the error does not name the directory: %s", s.Error)
	}
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRunning, 2)
}

func TestRollbackToTheLastVersionThatRan(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	a.Save("p.yaml", agenttest.Generated(a.Dir+"/missing", "p", 1000, ""))
	a.Wait("the rollback", func() bool {
		s := a.State("p")
		return s.Phase == spec.PhaseRunning && s.RunningGeneration == 1 && s.LastAttempt != nil &&
			s.LastAttempt.Generation == 2 && s.LastAttempt.Error != ""
	})
	n := agenttest.LinesIn(t, a.Path("p.jsonl"))
	a.Wait("more records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > n })
	a.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, a.Path("p.jsonl")))
}

func TestReferencesAreResolvedAtStart(t *testing.T) {
	t.Setenv("AGENT_TEST_DIR", "")
	a := agenttest.Start(t, "")
	t.Setenv("AGENT_TEST_OUTPUT", a.Path("p.jsonl"))
	file := strings.Replace(agenttest.Generated(a.Dir, "p", 1000, ""), `path: "`+a.Path("p.jsonl")+`"`,
		"path: '${AGENT_TEST_OUTPUT}'", 1)
	a.Save("p.yaml", file)
	a.Wait("records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > 10 })
	d, err := a.Store.Declarations(t.Context())
	if err != nil || d[0].Pipeline.Connectors[1].Settings["path"] != "${AGENT_TEST_OUTPUT}" {
		t.Errorf("the store has %v, error %v", d, err)
	}
	a.Save("p.yaml", strings.Replace(file, "OUTPUT", "UNSET", 1))
	a.Wait("the problem", func() bool {
		attempt := a.State("p").LastAttempt
		return attempt != nil && strings.Contains(attempt.Error, "AGENT_TEST_UNSET")
	})
	if s := a.State("p"); s.Phase != spec.PhaseRunning || s.RunningGeneration != 1 {
		t.Errorf("the pipeline is now %+v", s)
	}
}

func TestASecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DB.SQLite.Path = a.Path("conduit.db")
	err = agent.Run(context.Background(), agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(),
		Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("the second agent ended with %v; want an error that names the first one's pid", err)
	}
}

func TestExitOnDegraded(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Pipelines.ExitOnDegraded = true
	cfg.API.HTTP.Address = "127.0.0.1:0"
	bad := strings.Replace(agenttest.Generated(dir, "p", 5, ""), "rate: 5", "rate: fast", 1)
	if err := os.WriteFile(filepath.Join(cfg.Pipelines.Path, "p.yaml"), []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	err = agent.Run(t.Context(), agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(),
		Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "pipeline p is degraded") ||
		!strings.Contains(err.Error(), "rate") {
		t.Errorf("the agent ended with %v", err)
	}
}

func TestTheDemoLogsWhatTheSpecNames(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	demo, err := os.ReadFile("../../../pipelines/demo-pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, dir)
	a.Save("demo-pipeline.yaml", string(demo))
	var line struct {
		Component, Msg string
		ConnectorID    string `json:"connector_id"`
		PluginName     string `json:"plugin_name"`
		Record         struct {
			Position  string
			Operation string
			Metadata  map[string]string
			Key       string
			Payload   struct {
				Before any
				After  struct{ Airline, ScheduledDeparture string }
			}
		}
	}
	a.Wait("a record in the log", func() bool {
		for l := range strings.Lines(a.Log()) {
			if strings.Contains(l, `"record"`) {
				if err := json.Unmarshal([]byte(l), &line); err != nil {
					t.Fatal(err)
				}
				return true
			}
		}
		return false
	})
	if line.Component != "plugin" || line.ConnectorID != "demo-pipeline:log-destination" ||
		!strings.HasPrefix(line.PluginName, "builtin:log") {
		t.Errorf("fields of the line: %+v", line)
	}
	r := line.Record
	if r.Position != "1" || r.Operation != "create" || len(r.Key) == 0 || r.Payload.Before != nil ||
		r.Payload.After.Airline == "" {
		t.Errorf("record: %+v", r)
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Payload.After.ScheduledDeparture); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]string{
		"opencdc.payload.schema.subject": "demo-pipeline:generator-source:payload",
		"opencdc.payload.schema.version": "1",
		"conduit.source.connector.id":    "demo-pipeline:generator-source",
	} {
		if r.Metadata[key] != want {
			t.Errorf("metadata %s is %q, want %q", key, r.Metadata[key], want)
		}
	}
	for _, key := range []string{"opencdc.readAt", "opencdc.createdAt"} {
		if _, err := strconv.ParseInt(r.Metadata[key], 10, 64); err != nil {
			t.Errorf("metadata %s: %v", key, err)
		}
	}
}
