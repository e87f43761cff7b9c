package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/spec"
)

// Settings of simulated agents.
const (
	simulatedPoll  = 15 * time.Second
	simulatedRetry = 2 * time.Second
)

const (
	simulatedSettling = 6 * time.Second // time after any event within which they must converge
	simulatedSteps    = 12
	simulatedParts    = 4 // of the sequences, which run at the same time
)

var (
	histories = flag.Int("histories", 10, "sequences of events that TestSimulatedAgent tries")
	firstSeed = flag.Int("seed", 1, "seed of the first sequence that TestSimulatedAgent tries")
)

// TestSimulatedAgent compares an agent with a model. In virtual time, random sequences of events happen to the
// pipeline files, the store and the process of the agent.
func TestSimulatedAgent(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Load(config.Sources{Path: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	all := make([]int, simulatedSteps)
	for i := range all {
		all[i] = i
	}
	for part := range simulatedParts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + part; seed < *firstSeed+*histories; seed += simulatedParts {
				if failed := simulate(t, cfg, dir, seed, all); failed != "" {
					steps, failed := shrink(all, failed, func(steps []int) string {
						return simulate(t, cfg, dir, seed, steps)
					})
					t.Fatalf("seed %d, steps %v:\n%s", seed, steps, failed)
				}
			}
		})
	}
}

// shrink removes steps as long as the remaining sequence still fails.
func shrink(steps []int, failed string, try func([]int) string) ([]int, string) {
	for i := len(steps) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(steps), i, i+1)
		if again := try(fewer); again != "" {
			steps, failed = fewer, again
		}
	}
	return steps, failed
}

// simulate performs the steps of a sequence and returns the failure, "" if there is none.
func simulate(t *testing.T, cfg config.Config, root string, seed int, steps []int) (failed string) {
	defer func() {
		if e := recover(); e != nil {
			panic(fmt.Sprintf("seed %d, steps %v: %v", seed, steps, e))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{T: t, world: &world{lives: map[string]*lifetime{}}, Model: agenttest.NewModel(), cfg: cfg,
			version: 100}
		s.Rand = rand.New(rand.NewPCG(uint64(seed), 0))
		s.prepare(filepath.Join(root, fmt.Sprint(seed)))
		for _, i := range steps {
			s.Rand = rand.New(rand.NewPCG(uint64(seed), uint64(i+1)))
			if s.step(); s.wrong() {
				break
			}
		}
		s.stop()
		if s.wrong() {
			failed = s.report()
		}
		s.must(os.RemoveAll(s.dir))
	})
	return failed
}

// simulation is an agent under simulated events.
type simulation struct {
	*testing.T
	*rand.Rand
	*world
	agenttest.Model
	cfg     config.Config
	dir     string // parent of all files
	links   bool   // the files are links that change together
	version int    // the newest version

	agent     *agent.Agent
	end       context.CancelFunc
	ended     chan error
	disturbed map[string]bool // pipelines that this step may restart
	scanned   bool            // in this step: a version that runs since then may still be on probation

	did   []string
	diffs []string
}

func (s *simulation) prepare(dir string) {
	s.dir = dir
	s.must(os.Mkdir(dir, 0o700))
	s.must(os.Mkdir(s.path(""), 0o700))
	s.Model.Dir = 1
	c := &s.cfg
	c.DB.SQLite.Path, c.Pipelines.Path, c.Connectors.Path = filepath.Join(dir, "conduit.db"), s.path(""),
		filepath.Join(dir, "connectors")
	c.API.Enabled = false
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = agenttest.Grace, agenttest.Cleanup
	// A pipeline that cannot run is soon given up; one that fails after some time is restarted soon.
	c.Pipelines.ErrorRecovery.MinDelay, c.Pipelines.ErrorRecovery.MaxDelay = simulatedRetry, 20*simulatedRetry
	c.Pipelines.ErrorRecovery.MaxRetriesWindow = simulatedRetry / 2
	s.links = s.IntN(6) == 0
	s.start()
}

func (s *simulation) must(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

func (s *simulation) path(name string) string { return filepath.Join(s.dir, "pipelines", name) }

func (s *simulation) say(format string, args ...any) {
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

func (s *simulation) differs(format string, args ...any) {
	s.diffs = append(s.diffs, fmt.Sprintf(format, args...))
}

func (s *simulation) wrong() bool { return len(s.diffs)+len(s.faults) > 0 }

func (s *simulation) report() string {
	return strings.Join(s.did, "\n") + "\n-- and then:\n" + strings.Join(append(s.diffs, s.faults...), "\n") +
		"\n-- want:\n" + s.Model.String()
}

// start starts an agent.
func (s *simulation) start() {
	m := s.boot()
	ctx, end := context.WithCancel(context.Background())
	s.end, s.ended = end, make(chan error, 1)
	started := make(chan *agent.Agent, 1)
	go func() {
		s.ended <- runIn(ctx, agent.Options{Config: s.cfg, Plugins: parts.Plugins(),
			References: reference.Kinds(), Cluster: parts.Cluster(),
			Log:     slog.New(slog.DiscardHandler),
			Started: func(a *agent.Agent) { started <- a }}, m.simulation())
	}()
	select {
	case s.agent = <-started:
	case err := <-s.ended:
		s.Fatalf("cannot start: %v", err)
	}
	synctest.Wait()
	s.Model.Restarted()
}

func (s *simulation) stop() {
	s.end()
	if err := <-s.ended; err != nil && !s.now.dead {
		s.differs("the agent ended with: %v", err)
	}
}

func (s *simulation) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// scan makes the agent scan the files, which it otherwise does by itself after a while.
func (s *simulation) scan() {
	polls := !s.scanned && s.IntN(4) == 0
	s.scanned = true
	if polls {
		s.pass(simulatedPoll + agenttest.Confirm + time.Second)
	} else {
		_ = s.agent.Files.Reload(s.Context(), false) // a missing directory is an error
		s.pass(200 * time.Millisecond)
	}
	s.Model.Converge(time.Now())
	if polls {
		for _, d := range s.Model.Declared {
			d.Confirm(time.Now().Add(agenttest.Confirm)) // it has run since the scan
		}
	}
}

// check compares the converged agent with the model.
func (s *simulation) check() {
	s.pass(simulatedSettling)
	s.Model.Converge(time.Now())
	all, err := s.agent.Store.Declarations(s.Context())
	s.must(err)
	have := map[string]*spec.Declaration{}
	for i := range all {
		have[all[i].Pipeline.ID] = &all[i]
	}
	states := map[string]spec.State{}
	for _, st := range s.agent.Loop.Snapshot() {
		states[st.PipelineID] = st
	}
	for _, id := range []string{"p", "q", "r"} {
		s.checkDeclared(id, have[id], s.Model.Declared[id])
		s.checkRuns(id, states[id], s.Model.Declared[id])
	}
	s.checkFiles()
}

func (s *simulation) checkDeclared(id string, have *spec.Declaration, want *agenttest.ModelIntent) {
	if have == nil || want == nil {
		if (have == nil) != (want == nil) {
			s.differs("%s is declared: %v, want %v", id, have != nil, want != nil)
		}
		return
	}
	got := agenttest.ModelIntent{ModelVersion: versionOf(&have.Pipeline), Owner: have.Owner.Path,
		Generation: have.Generation,
		Override:   have.Override, Withdrawn: have.Withdrawn, Purge: have.Purge}
	near := want.Withdrawn.IsZero() == got.Withdrawn.IsZero() &&
		want.Withdrawn.Sub(got.Withdrawn).Abs() < 22*time.Second
	if near {
		want.Withdrawn = got.Withdrawn // the agent noticed while time passed
	}
	got.Running, got.Since, got.Good, got.GaveUp, got.Maybe = want.Running, want.Since, want.Good, want.GaveUp,
		want.Maybe
	if got != *want {
		s.differs("%s is declared %s, want %s", id, &got, want)
	}
}

func (s *simulation) checkRuns(id string, state spec.State, want *agenttest.ModelIntent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want == nil {
		want = &agenttest.ModelIntent{}
	}
	in, out := 0, 0
	if l := s.life(id); l.source != nil && l.sink != nil {
		fmt.Sscan(l.source.taste.version, &in)
		fmt.Sscan(l.sink.taste.version, &out)
	}
	if state.RunningGeneration != 0 && state.RunningGeneration == want.Maybe.Generation && !want.Withdrawn.IsZero() {
		want.Running = want.Maybe
	}
	want.Maybe = agenttest.ModelRan{}
	r := want.Running
	if in != r.In || out != r.Out || state.RunningGeneration != r.Generation ||
		(state.Phase == spec.PhaseRunning) != (r.Generation != 0) {
		s.differs("%s runs %d>%d, generation %d, %s (%s), want %s", id, in, out, state.RunningGeneration, state.Phase,
			state.Error, r)
	}
	if !want.Wants() || want.GaveUp == want.Generation {
		return
	}
	if a := state.LastAttempt; a == nil || a.Generation != want.Generation || (a.Error != "") != (want.Flaw != "") {
		s.differs("%s was tried last %+v, want generation %d, flaw %q", id, a, want.Generation, want.Flaw)
	}
	if g := state.LastGood; (g == nil) != (want.Good.Generation == 0) ||
		g != nil && (g.Generation != want.Good.Generation || versionOf(&g.Pipeline).Runs() != want.Good.ModelVersion) {
		s.differs("%s was good last %+v, want %+v", id, g, want.Good)
	}
}

func (s *simulation) checkFiles() {
	all, err := s.agent.Store.FileStates(s.Context())
	s.must(err)
	have := map[string]bool{}
	for _, f := range all {
		have[f.Path] = slices.ContainsFunc(f.Problems, func(p spec.Problem) bool {
			return p.Severity == spec.SeverityError
		})
	}
	if retained := len(s.agent.Files.Status().Retained) > 0; retained != s.Retained {
		s.differs("all files are retained: %v, want %v", retained, s.Retained)
	}
	if !s.Retained && !s.Missing && !maps.Equal(have, s.Faulty) {
		s.differs("files with problems: %v, want %v", have, s.Faulty)
	}
}

// versionOf is the opposite of text.
func versionOf(p *spec.Pipeline) (v agenttest.ModelVersion) {
	v.Stopped = p.Status == spec.StatusStopped
	for _, c := range p.Connectors {
		n := &v.In
		if c.Type == spec.TypeDestination {
			n = &v.Out
		}
		fmt.Sscan(c.Settings["version"], n)
		if c.Settings["flaw"] != "" {
			v.Flaw = c.Settings["flaw"]
		}
		if c.Plugin != "builtin:numbers" {
			v.Flaw = agenttest.FlawPlugin
		}
	}
	return v
}

// declaring returns the part of a pipeline file that declares v.
func declaring(id string, v agenttest.ModelVersion) string {
	status, plugin := "running", "builtin:numbers"
	var flaws [2]string
	switch v.Flaw {
	case agenttest.FlawPlugin:
		plugin = "builtin:none"
	case agenttest.FlawInvalid:
		status = "sideways"
	case agenttest.FlawSettings, agenttest.FlawOpen:
		flaws[(v.In+v.Out)%2] = ", flaw: " + v.Flaw
	}
	if v.Stopped {
		status = "stopped"
	}
	return fmt.Sprintf(`  - id: %s
    status: %s
    connectors:
      - {id: src, type: source, plugin: "builtin:numbers", settings: {version: "%d"%s}}
      - {id: dst, type: destination, plugin: "%s", settings: {version: "%d"%s}}
`, id, status, v.In, flaws[0], plugin, v.Out, flaws[1])
}

const brokenText = "version: \"2.2\"\npipelines: [{id: "

// textOf returns the text of a file.
func textOf(c *agenttest.ModelContent) string {
	if c.Empty {
		return ""
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.Says)) {
		b.WriteString(declaring(id, c.Says[id]))
	}
	text := "version: \"2.2\"\npipelines: []\n"
	if b.Len() > 0 {
		text = "version: \"2.2\"\npipelines:\n" + b.String()
	}
	if c.Broken {
		text += "---\n" + brokenText
	}
	return text
}
