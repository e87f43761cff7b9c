package plugins_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// brittle is a destination whose process ends at records with the word poison, a hopeless one at every record.
type brittle struct {
	sdk.DestinationBase
	hopeless bool
	path     string
}

func (*brittle) Parameters() sdk.Parameters { return sdk.Parameters{"path": {Type: sdk.TypeFile}} }

func (b *brittle) Configure(_ context.Context, settings map[string]string) error {
	b.path = settings["path"]
	return nil
}

func (*brittle) Open(context.Context) error { return nil }

func (b *brittle) Write(_ context.Context, records []record.Record) (int, error) {
	var text []byte
	for _, r := range records {
		if raw, _ := r.After.Raw(); b.hopeless || strings.Contains(string(raw), "poison") {
			os.Exit(3)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return 0, err
		}
		text = append(append(text, line...), '\n')
	}
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return 0, err
	}
	return len(records), nil
}

// brittlePipeline tails lines into an executable.
func brittlePipeline(dir, plugin, more string) string {
	return strings.Replace(agenttest.Picky(dir, `{{ eq 1 2 }}`, more),
		"id: dst, type: destination, plugin: builtin:file",
		"id: dst, type: destination, plugin: standalone:"+plugin, 1)
}

// startBrittle starts an agent whose pipeline tails the lines into the executable.
func startBrittle(t *testing.T, plugin, lines, more string) *agenttest.Web {
	t.Helper()
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, plugin)
	w := agenttest.StartWeb(t, dir)
	agenttest.AppendTo(t, w.Path("in.log"), lines)
	w.Save("p.yaml", brittlePipeline(w.Dir, plugin, more))
	return w
}

// Records that end the process of their destination become dead letters after a few
// restarts, and all others arrive.
func TestPoisonBecomesADeadLetter(t *testing.T) {
	load.Parallel(t, load.Agent)
	w := startBrittle(t, "brittle", "1\n2\n3\npoison 4\n5\n6\npoison 7\n8\n", agenttest.Tolerant)
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Wait("two dead letters", func() bool { return len(w.DeadLetters()) == 2 })
	w.Wait("the last line", func() bool { return slices.Contains(agenttest.Payloads(t, w.Path("out.jsonl")), "8") })
	for i, l := range w.DeadLetters() {
		if want := []string{"poison 7", "poison 4"}[i]; l.Stage != spec.RefusedByDestination ||
			l.RefusedBy != "p:dst" ||
			!strings.Contains(l.Error, "ended 2 times while it wrote this record alone") {
			t.Errorf("dead letter of %s is %+v", want, l)
		}
	}
	got := agenttest.Payloads(t, w.Path("out.jsonl"))
	for _, want := range []string{"1", "2", "3", "5", "6", "8"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is lost: %q", want, got)
		}
	}
	// Two ends in a row, and two at each of the two records alone.
	if n := agenttest.Scrape(t, w.Agent, `conduit_plugin_restarts_total{plugin="standalone:brittle"}`); n != 6 {
		t.Errorf("it took %v restarts", n)
	}
}

// A destination that ends at every record does not turn all records into dead letters.
func TestBrokenDestinationIsNoPoison(t *testing.T) {
	load.Parallel(t, load.Agent)
	w := startBrittle(t, "hopeless", "1\n2\n3\n4\n", agenttest.Tolerant)
	w.Wait("many failures", func() bool { return w.State("p").Failures > 8 })
	if l := w.DeadLetters(); len(l) > 1 {
		t.Errorf("%d records became dead letters", len(l))
	}
}

// If no refusal is tolerated, the pipeline is retried, as after any failure.
func TestPoisonThatIsNotTolerated(t *testing.T) {
	load.Parallel(t, load.Agent)
	w := startBrittle(t, "brittle", "1\npoison 2\n3\n", "")
	w.Wait("many failures", func() bool { return w.State("p").Failures > 6 })
	if l := w.DeadLetters(); len(l) != 0 {
		t.Errorf("dead letters: %+v", l)
	}
}
