package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// crowd prepares a directory with n pipelines, one per file, that each generate a record per second.
func crowd(tb testing.TB, n int) string {
	tb.Helper()
	dir := agenttest.NewDir(tb)
	for i := range n {
		id := fmt.Sprintf("p%04d", i)
		file := []byte(agenttest.Generated(dir, id, 1, ""))
		if err := os.WriteFile(filepath.Join(dir, "pipelines", id+".yaml"), file, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func allRun(a *agent.Agent, n int) func() bool {
	return func() bool {
		running := 0
		for _, s := range a.Loop.Snapshot() {
			if s.Phase == spec.PhaseRunning {
				running++
			}
		}
		return running == n
	}
}

// multitude is a crowd in which only the first n pipelines run. The very first has a rate that makes a change visible
// soon.
func multitude(tb testing.TB, files, n int) string {
	tb.Helper()
	dir := crowd(tb, n)
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p0000.yaml"),
		[]byte(agenttest.Generated(dir, "p0000", 1000, "")), 0o600); err != nil {
		tb.Fatal(err)
	}
	for i := n; i < files; i++ {
		id := fmt.Sprintf("p%04d", i)
		file := []byte(agenttest.Generated(dir, id, 1, "status: stopped"))
		if err := os.WriteFile(filepath.Join(dir, "pipelines", id+".yaml"), file, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// BenchmarkSaveToEffect measures the time from the rename of a file into place, or from the first write to it, until
// the first record of its new version, and from the start of the agent until all pipelines run.
func BenchmarkSaveToEffect(b *testing.B) {
	for _, c := range []struct {
		files, running int
		inPlace        bool
	}{{files: 1, running: 1}, {files: 1, running: 1, inPlace: true}, {files: 1000, running: 1000},
		{files: 10000, running: 1}, {files: 10000, running: 1000}} {
		b.Run(fmt.Sprintf("files=%d/running=%d/inplace=%v", c.files, c.running, c.inPlace), func(b *testing.B) {
			dir := multitude(b, c.files, c.running)
			began := time.Now()
			a := agenttest.Start(b, dir, quietly)
			a.Wait("all to run", allRun(a.Agent, c.running))
			first := time.Since(began)
			var took []time.Duration
			for version := 0; b.Loop(); version++ {
				out := a.Path(fmt.Sprintf("v%d", version))
				if err := os.Mkdir(out, 0o700); err != nil {
					b.Fatal(err)
				}
				text := strings.Replace(agenttest.Generated(a.Dir, "p0000", 1000, ""), `path: "`+a.Dir, `path: "`+out,
					1)
				began := time.Now()
				if c.inPlace {
					if err := os.WriteFile(a.Path("pipelines/p0000.yaml"), []byte(text), 0o600); err != nil {
						b.Fatal(err)
					}
				} else {
					a.Save("p0000.yaml", text)
				}
				for tick := time.Tick(200 * time.Microsecond); agenttest.FileSize(filepath.Join(out, "p0000.jsonl")) ==
					0; {
					<-tick
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
			b.ReportMetric(float64(first.Milliseconds()), "ms/first")
		})
	}
}

// quietly prevents background work of the agent during a benchmark.
func quietly(c *config.Config) { c.Pipelines.DeletionGrace = time.Hour }

// BenchmarkStart measures the time from the start of an agent until 1,000 pipelines run, with new files and with known
// ones.
func BenchmarkStart(b *testing.B) {
	const n = 1000
	run := func(b *testing.B, dir string) time.Duration {
		cfg, _, err := config.Load(config.Sources{})
		if err != nil {
			b.Fatal(err)
		}
		cfg.DB.SQLite.Path, cfg.Pipelines.Path = filepath.Join(dir, "conduit.db"), filepath.Join(dir, "pipelines")
		cfg.Connectors.Path = filepath.Join(dir, "connectors")
		ctx, stop := context.WithCancel(context.Background())
		up, ended := make(chan *agent.Agent, 1), make(chan error, 1)
		began := time.Now()
		go func() {
			ended <- agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
				References: reference.Kinds(), Cluster: parts.Cluster(),
				Log: slog.New(slog.DiscardHandler), Wired: agenttest.Unlimited, Started: func(a *agent.Agent) {
					up <- a
				}})
		}()
		wait.For(b, "all to run", allRun(<-up, n))
		took := time.Since(began)
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		return took
	}
	var first, again time.Duration
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		dir := crowd(b, n)
		b.StartTimer()
		first += run(b, dir)
		again += run(b, dir)
		rounds++
	}
	b.ReportMetric(float64(first.Milliseconds())/float64(rounds), "ms/first")
	b.ReportMetric(float64(again.Milliseconds())/float64(rounds), "ms/again")
}
