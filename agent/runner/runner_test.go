package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	clog "github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor/fields"
	"github.com/conduit-agent/conduit/plugins/processor/flow"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// newRunner returns a runner with the built-in plugins and its own store.
func newRunner(t *testing.T) *runner.Runner {
	t.Helper()
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), filepath.Join(dir, "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var c config.Config
	c.Connectors.Path = filepath.Join(dir, "connectors")
	return &runner.Runner{
		Catalog:    catalog.Offline(contained(), c, log),
		References: &reference.Resolver{Kinds: spec.ReferenceKinds{reference.Env(), reference.File()}, Log: log}, Store: db,
		Committer: &engine.Committer{Store: db}, Taps: &engine.TapPoints{}, Window: backpressure.Default, Log: log,
	}
}

// contained returns the plugins of the tests.
func contained() catalog.Plugins {
	connectors := func(exec.Options) []sdk.Connector {
		return []sdk.Connector{file.Connector(zstd.Codec{}), generator.Connector(), clog.Connector(),
			{Name: "kafka", NewSource: func() sdk.Source { return &shared{} }},
			{Name: "s3", NewSource: func() sdk.Source { return &shared{} }}}
	}
	return catalog.Plugins{Connectors: connectors, Processors: slices.Concat(fields.Plugins(), flow.Plugins())}
}

// declared returns a version of a pipeline that writes to the path.
func declared(path, fsync string) *spec.Declaration {
	return &spec.Declaration{Owner: spec.Owner{Kind: spec.OwnerAPI}, Pipeline: spec.Pipeline{
		ID: "p", Name: "p", Status: spec.StatusRunning,
		Connectors: []spec.Connector{
			{ID: "src", Type: spec.TypeSource, Plugin: "builtin:generator",
				Settings: map[string]string{"rate": "1", "format.type": "structured", "format.options.n": "int"}},
			{ID: "dst", Type: spec.TypeDestination, Plugin: "builtin:file",
				Settings: map[string]string{"path": path, "fsync": fsync}},
		},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log", WindowSize: 1},
	}}
}

// running returns a run of d that runs until the test ends.
func running(t *testing.T, r *runner.Runner, d *spec.Declaration) reconcile.Run {
	t.Helper()
	run, err := r.Prepare(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	drain, started, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() { ended <- r.Committer.Run(ctx) }()
	go func() { ended <- run.Run(ctx, drain, func() { close(started) }) }()
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("it does not run: %v", err)
	}
	t.Cleanup(func() {
		close(drain)
		if err := <-ended; err != nil {
			t.Errorf("the run ended with %v", err)
		}
		end()
		<-ended
	})
	return run
}

// No text shows the values of a refused version, but the run forgets them when another version is tried.
func TestRefusedAmendmentsLeaveNoSecrets(t *testing.T) {
	r := newRunner(t)
	t.Setenv("CURRENT", "canary-current")
	path := filepath.Join(t.TempDir(), "${CURRENT}")
	run := running(t, r, declared(path, "true"))
	before := runner.Secrets(run)
	if before == 0 {
		t.Fatal("the run knows no secrets")
	}
	for i := range 10 {
		t.Setenv("REFUSED", fmt.Sprint("canary-refused-", i))
		_, err := run.Amend(t.Context(), declared(path, "${REFUSED}"))
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "${REFUSED}") {
			t.Fatalf("amended, error %v", err)
		}
		if n := runner.Secrets(run); n > 2*before {
			t.Fatalf("after %d amendments it knows %d forms of values, and %d before them", i+1, n, before)
		}
	}
	if text := runner.Redacted(run, "canary-current canary-refused-9"); text != "${CURRENT} ${REFUSED}" {
		t.Errorf("shows %q", text)
	}
}

func TestForget(t *testing.T) {
	r := newRunner(t)
	running(t, r, declared(filepath.Join(t.TempDir(), "out"), "true"))
	if _, stats := r.Pipeline("p"); stats == nil || len(r.Stats()) != 1 {
		t.Fatal("nothing is counted of what was prepared")
	}
	if r.Forget("p"); len(r.Stats()) != 0 {
		t.Errorf("stats of %v are kept", r.Stats())
	}
}

// TestHold makes the run of a claim wait before it writes, with the id of its pipeline. A run without a claim does not
// wait. Neither does a run that is only assembled, such as a replay of dead letters: it continues when the claim is
// given away.
func TestHold(t *testing.T) {
	r, path := newRunner(t), filepath.Join(t.TempDir(), "out")
	asked, release := make(chan string, 1000), make(chan struct{})
	r.Epoch = func(string) (uint64, bool) { return 42, true }
	r.WaitToWrite = func(_ context.Context, pipelineID string) error {
		asked <- pipelineID
		<-release
		return nil
	}
	d := declared(path, "false")
	running(t, r, d)
	if id := <-asked; id != "p" {
		t.Errorf("%q waits", id)
	}
	if text, err := os.ReadFile(path); len(text) > 0 {
		t.Errorf("it writes %q, %v", text, err)
	}
	p, _, err := r.Assemble(t.Context(), d)
	if err != nil || p.WaitToWrite != nil || p.Epoch != "42" {
		t.Errorf("what is assembled waits: %v, with the epoch %s, %v", p.WaitToWrite != nil, p.Epoch, err)
	}
	close(release)

	unclaimed := newRunner(t)
	unclaimed.Epoch = func(string) (uint64, bool) { return 0, false }
	unclaimed.WaitToWrite = func(context.Context, string) error { return errors.New("it has no claim") }
	path = filepath.Join(t.TempDir(), "out")
	running(t, unclaimed, declared(path, "false"))
	wait.For(t, "a record", func() bool {
		text, _ := os.ReadFile(path)
		return len(text) > 0
	})
}

// Records have the epoch of the claim of their pipeline in their metadata, and none without a claim.
func TestEpoch(t *testing.T) {
	for name, c := range map[string]struct {
		epoch func(string) (uint64, bool)
		want  string
	}{
		"alone":           {nil, "[]"},
		"without a claim": {func(string) (uint64, bool) { return 0, false }, "[]"},
		"with a claim":    {func(pipeline string) (uint64, bool) { return 42, pipeline == "p" }, "[42]"},
	} {
		t.Run(name, func(t *testing.T) {
			r, path := newRunner(t), filepath.Join(t.TempDir(), "out")
			r.Epoch = c.epoch
			d := declared(path, "false")
			maps.Copy(d.Pipeline.Connectors[0].Settings, map[string]string{"rate": "1000"})
			maps.Copy(d.Pipeline.Connectors[1].Settings, map[string]string{"sdk.record.format": "template",
				"sdk.record.format.options": `[{{ index .Metadata "conduit.cluster.epoch" }}]`})
			running(t, r, d)
			var first string
			wait.For(t, "a record", func() bool {
				text, _ := os.ReadFile(path)
				var ok bool
				first, _, ok = strings.Cut(string(text), "\n")
				return ok
			})
			if first != c.want {
				t.Errorf("the first record has the epoch %s, want %s", first, c.want)
			}
		})
	}
}

// A binary without isolation refuses to run an isolated destination as if it were not isolated. What is assembled for a
// replay or a check has no log in any binary.
func TestIsolationThatIsNotThere(t *testing.T) {
	r := newRunner(t)
	d := declared(filepath.Join(t.TempDir(), "out.jsonl"), "true")
	d.Pipeline.Connectors[1].Isolate = &spec.Isolation{Bytes: spec.DefaultIsolationBytes}
	if _, err := r.Prepare(t.Context(), d); err == nil || !strings.Contains(err.Error(), "the full binary, conduit") ||
		!strings.Contains(err.Error(), "p:dst") {
		t.Errorf("prepared, error %v", err)
	}
	p, _, err := r.Assemble(t.Context(), d)
	if err == nil {
		err = p.Prepare(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Discard(t.Context())
}
