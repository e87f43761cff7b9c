package e2e_test

import (
	"context"
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
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// What simulated agents are set to, and how long after anything they must have converged.
const (
	simulatedPoll     = 15 * time.Second
	simulatedConfirm  = 2 * time.Second
	simulatedRetry    = 2 * time.Second
	simulatedGrace    = time.Minute
	simulatedCleanup  = 2 * time.Minute
	simulatedSettling = 6 * time.Second
	simulatedSteps    = 12
	simulatedParts    = 4 // of the sequences, which run at the same time
)

// TestSimulatedAgent has everything happen that may happen to the files, the store and
// the process of an agent, in sequences made of a seed, in virtual time, and compares
// what it does with the model. CONDUIT_SIMULATIONS sets how many sequences are tried,
// CONDUIT_SEED the first of them.
func TestSimulatedAgent(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	sequences := 20
	if effort.Thorough() {
		sequences = 80
	}
	first := setting(t, "CONDUIT_SEED", 1)
	sequences = setting(t, "CONDUIT_SIMULATIONS", sequences)
	cfg, _, err := config.Load(config.Sources{Path: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	dir := memoryDir(t)
	all := make([]int, simulatedSteps)
	for i := range all {
		all[i] = i
	}
	for part := range simulatedParts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := first + part; seed < first+sequences; seed += simulatedParts {
				if failed := simulate(t, cfg, dir, seed, all); failed != "" {
					steps, failed := shrink(all, failed, func(steps []int) string { return simulate(t, cfg, dir, seed, steps) })
					t.Fatalf("seed %d, steps %v:\n%s", seed, steps, failed)
				}
			}
		})
	}
}

// memoryDir returns a directory where syncing costs nothing, if there is one.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "conduit-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// shrink drops steps for as long as what is left still fails.
func shrink(steps []int, failed string, try func([]int) string) ([]int, string) {
	for i := len(steps) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(steps), i, i+1)
		if again := try(fewer); again != "" {
			steps, failed = fewer, again
		}
	}
	return steps, failed
}

// simulate performs the steps of a sequence and returns what went wrong, "" if nothing did.
func simulate(t *testing.T, cfg config.Config, root string, seed int, steps []int) (failed string) {
	defer func() {
		if e := recover(); e != nil {
			panic(fmt.Sprintf("seed %d, steps %v: %v", seed, steps, e))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{T: t, world: &world{lives: map[string]*lifetime{}}, model: newModel(), cfg: cfg, version: 100}
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

// simulation is an agent to which things happen.
type simulation struct {
	*testing.T
	*rand.Rand
	*world
	model
	cfg     config.Config
	dir     string // of everything
	links   bool   // the files are links that change together
	version int    // made last

	agent     *agent.Agent
	end       context.CancelFunc
	ended     chan error
	disturbed map[string]bool // pipelines that this step may restart
	scanned   bool            // in this step: what runs since may not have proved itself

	did   []string
	diffs []string
}

func (s *simulation) prepare(dir string) {
	s.dir = dir
	s.must(os.Mkdir(dir, 0o700))
	s.must(os.Mkdir(s.path(""), 0o700))
	s.model.dir = 1
	c := &s.cfg
	c.DB.SQLite.Path, c.Pipelines.Path, c.Connectors.Path = filepath.Join(dir, "conduit.db"), s.path(""), filepath.Join(dir, "connectors")
	c.API.Enabled = false
	c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = simulatedGrace, simulatedCleanup
	// What cannot run is soon left alone, what fails after a while is started again soon.
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
	return strings.Join(s.did, "\n") + "\n-- and then:\n" + strings.Join(append(s.diffs, s.faults...), "\n") + "\n-- want:\n" + s.model.String()
}

// start starts an agent.
func (s *simulation) start() {
	m := s.boot()
	ctx, end := context.WithCancel(context.Background())
	s.end, s.ended = end, make(chan error, 1)
	started := make(chan *agent.Agent, 1)
	go func() {
		s.ended <- runIn(ctx, agent.Options{Config: s.cfg, Log: slog.New(slog.DiscardHandler),
			Started: func(a *agent.Agent) { started <- a }}, m.simulation())
	}()
	select {
	case s.agent = <-started:
	case err := <-s.ended:
		s.Fatalf("cannot start: %v", err)
	}
	synctest.Wait()
	s.model.restarted()
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

// scan has the agent scan the files, which it does by itself after a while.
func (s *simulation) scan() {
	polls := !s.scanned && s.IntN(4) == 0
	s.scanned = true
	if polls {
		s.pass(simulatedPoll + simulatedConfirm + time.Second)
	} else {
		_ = s.agent.Files.Reload(s.Context(), false) // a missing directory is an error
		s.pass(200 * time.Millisecond)
	}
	s.model.converge(time.Now())
	if polls {
		for _, d := range s.model.declared {
			d.confirm(time.Now().Add(simulatedConfirm)) // it has run since the scan
		}
	}
}

// check compares what the agent does with the model, after it has converged.
func (s *simulation) check() {
	s.pass(simulatedSettling)
	s.model.converge(time.Now())
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
		s.checkDeclared(id, have[id], s.model.declared[id])
		s.checkRuns(id, states[id], s.model.declared[id])
	}
	s.checkFiles()
}

func (s *simulation) checkDeclared(id string, have *spec.Declaration, want *intent) {
	if have == nil || want == nil {
		if (have == nil) != (want == nil) {
			s.differs("%s is declared: %v, want %v", id, have != nil, want != nil)
		}
		return
	}
	got := intent{version: versionOf(&have.Pipeline), owner: have.Owner.Path, generation: have.Generation, override: have.Override, withdrawn: have.Withdrawn, purge: have.Purge}
	near := want.withdrawn.IsZero() == got.withdrawn.IsZero() && want.withdrawn.Sub(got.withdrawn).Abs() < 22*time.Second
	if near {
		want.withdrawn = got.withdrawn // the agent found out while time passed
	}
	got.running, got.since, got.good, got.gaveUp, got.maybe = want.running, want.since, want.good, want.gaveUp, want.maybe
	if got != *want {
		s.differs("%s is declared %s, want %s", id, &got, want)
	}
}

func (s *simulation) checkRuns(id string, state spec.State, want *intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want == nil {
		want = &intent{}
	}
	in, out := 0, 0
	if l := s.life(id); l.source != nil && l.sink != nil {
		fmt.Sscan(l.source.taste.version, &in)
		fmt.Sscan(l.sink.taste.version, &out)
	}
	if state.RunningGeneration != 0 && state.RunningGeneration == want.maybe.generation && !want.withdrawn.IsZero() {
		want.running = want.maybe
	}
	want.maybe = ran{}
	r := want.running
	if in != r.in || out != r.out || state.RunningGeneration != r.generation || (state.Phase == spec.PhaseRunning) != (r.generation != 0) {
		s.differs("%s runs %d>%d, generation %d, %s (%s), want %s", id, in, out, state.RunningGeneration, state.Phase, state.Error, r)
	}
	if !want.wants() || want.gaveUp == want.generation {
		return
	}
	if a := state.LastAttempt; a == nil || a.Generation != want.generation || (a.Error != "") != (want.flaw != "") {
		s.differs("%s was tried last %+v, want generation %d, flaw %q", id, a, want.generation, want.flaw)
	}
	if g := state.LastGood; (g == nil) != (want.good.generation == 0) || g != nil && (g.Generation != want.good.generation || versionOf(&g.Pipeline).runs() != want.good.version) {
		s.differs("%s was good last %+v, want %+v", id, g, want.good)
	}
}

func (s *simulation) checkFiles() {
	all, err := s.agent.Store.FileStates(s.Context())
	s.must(err)
	have := map[string]bool{}
	for _, f := range all {
		have[f.Path] = slices.ContainsFunc(f.Problems, func(p spec.Problem) bool { return p.Severity == spec.SeverityError })
	}
	if retained := len(s.agent.Files.Status().Retained) > 0; retained != s.retained {
		s.differs("all files are retained: %v, want %v", retained, s.retained)
	}
	if !s.retained && !s.missing && !maps.Equal(have, s.faulty) {
		s.differs("files with problems: %v, want %v", have, s.faulty)
	}
}

// versionOf is the opposite of text.
func versionOf(p *spec.Pipeline) (v version) {
	v.stopped = p.Status == spec.StatusStopped
	for _, c := range p.Connectors {
		n := &v.in
		if c.Type == spec.TypeDestination {
			n = &v.out
		}
		fmt.Sscan(c.Settings["version"], n)
		if c.Settings["flaw"] != "" {
			v.flaw = c.Settings["flaw"]
		}
		if c.Plugin != "builtin:numbers" {
			v.flaw = flawPlugin
		}
	}
	return v
}

// text returns what a file says to declare v.
func (v version) text(id string) string {
	status, plugin := "running", "builtin:numbers"
	var flaws [2]string
	switch v.flaw {
	case flawPlugin:
		plugin = "builtin:none"
	case flawInvalid:
		status = "sideways"
	case flawSettings, flawOpen:
		flaws[(v.in+v.out)%2] = ", flaw: " + v.flaw
	}
	if v.stopped {
		status = "stopped"
	}
	return fmt.Sprintf(`  - id: %s
    status: %s
    connectors:
      - {id: src, type: source, plugin: "builtin:numbers", settings: {version: "%d"%s}}
      - {id: dst, type: destination, plugin: "%s", settings: {version: "%d"%s}}
`, id, status, v.in, flaws[0], plugin, v.out, flaws[1])
}

const brokenText = "version: \"2.2\"\npipelines: [{id: "

// text returns the text of a file.
func (c *content) text() string {
	if c.empty {
		return ""
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.says)) {
		b.WriteString(c.says[id].text(id))
	}
	text := "version: \"2.2\"\npipelines: []\n"
	if b.Len() > 0 {
		text = "version: \"2.2\"\npipelines:\n" + b.String()
	}
	if c.broken {
		text += "---\n" + brokenText
	}
	return text
}
