//go:build linux && (amd64 || arm64)

package sweeps_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/faults"
)

// world is one run of a scenario.
type world struct {
	t     *testing.T
	fault fault
	at    place           // of the fault; the zero place for none
	names map[string]bool // of the remaining files; filled by a run without a fault

	root, dir string // the files of the agent, and its destinations' files, are in dir
	agent     *process
	watched   *process // its calls count
	good, bad int      // lines fed

	armed atomic.Bool // calls count
	hit   atomic.Bool // the fault happened
	fatal atomic.Bool // the agent was not up when the fault happened

	mu     sync.Mutex
	calls  []place        // guarded by mu
	counts map[string]int // guarded by mu
	last   time.Time      // guarded by mu: time of the last call
}

// quiet is the time without a change of a file after which everything is saved: several times the delay of a save.
const quiet = 150 * time.Millisecond

// run runs a scenario with the fault, and checks the result.
func (w *world) run(s scenario) {
	w.root = w.t.TempDir()
	w.dir = filepath.Join(w.root, "agent")
	w.counts = map[string]int{}
	if err := os.MkdirAll(filepath.Join(w.dir, "pipelines"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if s.between != nil {
		w.start(false)
		w.follow(s.setup)
		w.end()
		if err := s.between(w.root); err != nil {
			w.t.Fatal(err)
		}
	}
	w.armed.Store(s.between != nil || len(s.setup) == 0)
	w.start(true)
	if s.between == nil && len(s.setup) > 0 {
		w.follow(append(s.setup, idle()))
		w.armed.Store(true)
	}
	w.follow(append(s.steps, idle()))
	w.end()
	w.start(false)
	w.follow(append([]step{arrives()}, s.lasting...))
	w.end()
	w.check()
}

// start starts the agent and waits until it is up.
func (w *world) start(watched bool) {
	w.t.Helper()
	var watch func(*process)
	if watched {
		watch = func(p *process) {
			faults.Watch(w.t, p.cmd, w.dir).Decide(func(c faults.Call) syscall.Errno { return w.decide(p, c) })
		}
	}
	w.agent = start(w.t, w.root, watch)
	if watched {
		w.watched = w.agent
	}
	if !w.agent.up(w.t, w.root) {
		w.again()
	}
}

// again restarts the agent after it ended because of the fault.
func (w *world) again() {
	w.t.Helper()
	switch {
	case !w.hit.Load():
		w.t.Fatalf("the agent ended by itself: %v\n%s", w.agent.err, w.agent.log.String())
	case !w.fault.kill && !w.fatal.Load():
		w.t.Fatalf("the agent did not go on: %v\n%s", w.agent.err, w.agent.log.String())
	}
	w.said()
	w.start(false)
}

// follow performs the steps.
func (w *world) follow(steps []step) {
	w.t.Helper()
	for _, s := range steps {
		acknowledged := s.do == nil
		for !w.agent.await(w.t, "a step", func() bool {
			if !acknowledged {
				err := s.do(w)
				if acknowledged = err == nil; err != nil {
					w.t.Logf("not done: %v", err)
				}
			}
			return acknowledged && (s.done == nil || s.done(w))
		}) {
			w.again()
		}
	}
}

// end stops the agent gracefully. Only the fault may cause an error.
func (w *world) end() {
	w.t.Helper()
	hit := w.hit.Load()
	err := w.agent.stop()
	now := w.hit.Load() && (w.fault.kill || !hit) // the fault happened during the stop, or caused the end
	if err != nil && (w.agent != w.watched || !now) {
		w.t.Fatalf("the agent did not end well: %v", err)
	}
	w.said()
}

// unsaid are the calls that fail without a consequence or a log entry: on memory shared through a file, on the process
// id in a lock that is released, and on the write-ahead log, which SQLite then opens read-only, enough for a connection
// that only reads.
var unsaid = regexp.MustCompile(`-shm$|^truncate conduit\.db\.lock$|^open conduit\.db-wal$`)

// said checks that the log of the ended agent reports the failure.
func (w *world) said() {
	w.t.Helper()
	if !w.hit.Load() || !w.armed.Swap(false) || w.fault.kill || unsaid.MatchString(w.at.call) {
		return
	}
	log := w.agent.log.String()
	if !slices.ContainsFunc(w.fault.says, func(text string) bool { return strings.Contains(log, text) }) {
		w.t.Errorf("the log does not say that there was a fault:\n%s", log)
	}
}

// digits, decimal or hexadecimal, are the part in which the names of similar files differ.
var digits = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)

// decide counts a call of p, and makes the fault at its place.
func (w *world) decide(p *process, c faults.Call) syscall.Errno {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	if !w.armed.Load() {
		return 0
	}
	if _, err := os.Lstat(c.Path); err != nil && c.Name == "remove" {
		return 0 // does not change a file
	}
	name := digits.ReplaceAllString(strings.TrimPrefix(c.Path, w.dir+"/"), "#")
	at := place{call: c.Name + " " + name}
	w.counts[at.call]++
	at.number = w.counts[at.call]
	w.calls = append(w.calls, at)
	if at != w.at {
		return 0
	}
	w.fatal.Store(!strings.Contains(p.log.String(), "agent started"))
	w.hit.Store(true)
	if w.fault.kill {
		_ = syscall.Kill(c.Thread, syscall.SIGKILL) // kills the whole process
	}
	return w.fault.errno
}

// idle reports whether no file has changed for a while.
func (w *world) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last) > quiet
}

// output returns the numbers of the good lines that have arrived.
func (w *world) output() (numbers []int) {
	content, err := os.ReadFile(filepath.Join(w.dir, "out"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(content)) {
		number, complete := strings.CutSuffix(line[strings.LastIndexByte(line, ' ')+1:], "\n")
		n, err := strconv.Atoi(number)
		if err != nil && complete {
			w.t.Errorf("%q arrived", line)
		}
		if err == nil && complete {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// measured is the file with measurements, which are made at intervals: a short run may have none.
const measured = "conduit.db.trends"

// check checks that all lines arrived in order, and that only the files of a run without a fault remain.
func (w *world) check() {
	w.t.Helper()
	last, highest := 0, 0
	for _, n := range w.output() {
		if n > last+1 || n <= last && !w.hit.Load() {
			w.t.Errorf("line %d follows %d", n, last)
		}
		last, highest = n, max(highest, n)
	}
	if highest != w.good {
		w.t.Errorf("%d of %d lines arrived", highest, w.good)
	}
	names := map[string]bool{}
	err := fs.WalkDir(os.DirFS(w.dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != measured {
			names[digits.ReplaceAllString(path, "#")] = true
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	if w.at == (place{}) {
		maps.Copy(w.names, names)
	} else if !maps.Equal(names, w.names) {
		w.t.Errorf("the files are %v, and %v without a fault", names, w.names)
	}
}
