package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/host"
	"github.com/conduit-agent/conduit/plugins/plugintest/browser"
	"github.com/conduit-agent/conduit/plugins/plugintest/logbuf"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// childDir, when set, makes the test binary an agent in that directory.
const childDir = "CONDUIT_TEST_AGENT_DIR"

// addressFile, when set, is where that agent writes the address of its API.
const addressFile = "CONDUIT_TEST_ADDRESS_FILE"

// memoryLimit, when set, is the setting memory.limit of that agent.
const memoryLimit = "CONDUIT_TEST_MEMORY_LIMIT"

// maxDelay, when set, is the most that agent waits before it starts a pipeline again that failed.
const maxDelay = "CONDUIT_TEST_MAX_DELAY"

// noEvents, when set, has the agent in a process of its own take away from itself what
// it needs to be notified of changes.
const noEvents = "CONDUIT_TEST_NO_EVENTS"

func TestMain(m *testing.M) {
	if name := os.Getenv(pluginName); name != "" {
		servePlugin(name)
		return
	}
	if tool := os.Getenv(savingTool); tool != "" {
		os.Exit(saveAs(tool, os.Args[1:]))
	}
	if os.Getenv(asCurl) != "" {
		os.Exit(curl(os.Args[1:]))
	}
	if address := os.Getenv(onlookers); address != "" {
		os.Exit(watchRecords(address, os.Args[1], os.Args[2]))
	}
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	overlap := 5 // they mostly wait
	if effort.Thorough() || effort.RaceDetector {
		overlap = 3 // with more faults
	}
	wait.Overlap(overlap)
	wait.CollectLess()
	os.Exit(browser.Run(m))
}

// child runs an agent until SIGTERM, like the binary does.
func child(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if os.Getenv(noEvents) != "" {
		if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		panic(err)
	}
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.API.HTTP.Address = "127.0.0.1:0"
	if limit, err := strconv.Atoi(os.Getenv(memoryLimit)); err == nil {
		cfg.Memory.Limit = limit
		host.LimitMemory(host.MemoryLimitOf(limit))
	}
	if most, err := time.ParseDuration(os.Getenv(maxDelay)); err == nil {
		cfg.Pipelines.ErrorRecovery.MaxDelay = most
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	started := func(a *agent.Agent) {
		if path := os.Getenv(addressFile); path != "" {
			if err := os.WriteFile(path, []byte(a.Address()+"\n"), 0o600); err != nil {
				panic(err)
			}
		}
	}
	if err := agent.Run(ctx, agent.Options{Config: cfg, Log: log, Wired: agenttest.Unlimited, Started: started}); err != nil {
		log.Error("agent ended", "err", err)
		return 1
	}
	return 0
}

// process is an agent in a process of its own.
type process struct {
	cmd *exec.Cmd
	log logbuf.Buffer
}

func startProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p, err := tryProcess(dir, nil, env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryProcess(dir string, attr *syscall.SysProcAttr, env ...string) (*process, error) {
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.SysProcAttr = attr
	p.cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	p.cmd.Stderr = &p.log
	return p, p.cmd.Start()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) terminate(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("agent did not end well: %v\n%s", err, p.log.String())
	}
}

const killPipelines = `version: "2.2"
pipelines:
  - id: made
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: %[2]d, format.type: structured, format.options.n: int}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/made.jsonl}
  - id: tailed
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/input.log}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/tailed.jsonl}
`

// writePipelines makes the directory of an agent's pipeline files, with one file.
func writePipelines(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// kills is how often the agent is killed; CONDUIT_KILLS sets it for longer campaigns.
func kills(t *testing.T) int { return rounds(t, "CONDUIT_KILLS", 100) }

// rounds is how often a test makes something go wrong: as a variable says, else so often in CI,
// a tenth of it under the race detector and a twentieth elsewhere, but not less than three times.
func rounds(t *testing.T, variable string, inCI int) int {
	t.Helper()
	switch {
	case effort.Brief():
		inCI = max(3, inCI/20)
	case !effort.Thorough():
		inCI = max(3, inCI/10)
	}
	return setting(t, variable, inCI)
}

// repeatBound is how long before a kill a record may have been read that is repeated
// after it on a quiet machine: a commit interval of 50 ms, and what a commit takes. On a busy one it is busyBound.
const (
	repeatBound = time.Second
	busyBound   = 30 * time.Second
)

// killsOfOne is how many kills one agent takes: what it wrote is kept until its end. More are those of
// several agents, some of which run at once.
const killsOfOne = 250

// A kill -9 at any moment loses nothing and reorders nothing, and what is repeated is
// what was read since the last commit.
func TestKillLosesNothing(t *testing.T) {
	t.Parallel()
	n := kills(t)
	if n <= killsOfOne {
		t.Log(killOften(t, n))
		return
	}
	var all killed
	t.Run("agents", func(t *testing.T) {
		for first := 0; first < n; first += killsOfOne {
			t.Run(strconv.Itoa(first+1), func(t *testing.T) {
				t.Parallel()
				one := killOften(t, min(killsOfOne, n-first))
				t.Log(one)
				all.add(one)
			})
		}
	})
	t.Log("all: ", &all)
}

// killOften kills an agent n times and checks what it wrote. The file that it follows is rotated about once a second.
func killOften(t *testing.T, n int) *killed {
	const rate = 5000 // records per second in each pipeline
	dir := t.TempDir()
	writePipelines(t, dir, fmt.Sprintf(killPipelines, dir, rate))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	rotate := make(chan struct{})
	go func() { lines <- feedRotated(feed, filepath.Join(dir, "input.log"), rate, rotate) }()

	made, tailed := filepath.Join(dir, "made.jsonl"), filepath.Join(dir, "tailed.jsonl")
	k, bound := &killed{starts: 100 * time.Millisecond}, repeatBound
	for i := range n {
		if i == max(1, n/10) { // before there is a position, the source reads only the file that is there
			catchUp(t, dir, tailed, lastSeen(tailed)+1)
			close(rotate)
		}
		k.kill(t, startProcess(t, dir), made, tailed)
		bound = max(bound, wait.Within(repeatBound, busyBound))
	}
	fed()
	want := <-lines
	catchUp(t, dir, tailed, want)

	for _, path := range []string{made, tailed} {
		o := inspect(t, path, k.at)
		k.records, k.repeated, k.oldest = k.records+o.last, k.repeated+o.repeated, max(k.oldest, o.oldest)
		if o.oldest > bound {
			t.Errorf("%s: a record was repeated that was read %v before the kill, want at most %v", path, o.oldest, bound)
		}
		if o.torn > n {
			t.Errorf("%s: %d torn lines with %d kills", path, o.torn, n)
		}
		if path == tailed && o.last != want {
			t.Errorf("%d of %d lines arrived", o.last, want)
		}
	}
	return k
}

// feedLines appends numbered lines until ctx ends and returns how many.
func feedLines(ctx context.Context, path string, rate int) int {
	return feed(ctx, path, rate/100, strconv.Itoa)
}

// feed appends so many lines to the file every 10 ms until ctx ends, and returns how many it
// appended. line returns the one with a number.
func feed(ctx context.Context, path string, each int, line func(n int) string) (n int) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n
		case <-tick.C:
			var text []byte
			for range each {
				n++
				text = append(append(text, line(n)...), '\n')
			}
			if _, err := f.Write(text); err != nil {
				panic(err)
			}
		}
	}
}

// grows waits until all files are larger than when it was called.
func (p *process) grows(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		before := fileSize(path)
		p.waitFor(t, path+" to grow", func() bool { return fileSize(path) > before })
	}
}

// awaitBytes returns when a file has so many bytes more. It does not rest, so that it ends in the
// middle of what the agent does.
func (p *process) awaitBytes(t *testing.T, path string, more int64) {
	t.Helper()
	p.awaitSize(t, path, fileSize(path)+more)
}

// awaitSize returns when a file has so many bytes.
func (p *process) awaitSize(t *testing.T, path string, bytes int64) {
	t.Helper()
	for deadline := time.Now().Add(wait.Limit); fileSize(path) < bytes; runtime.Gosched() {
		if time.Now().After(deadline) {
			p.kill()
			t.Fatalf("%s has only %d of %d bytes\n%s", path, fileSize(path), bytes, p.log.String())
		}
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// outcome is what an output file shows.
type outcome struct {
	last, repeated, torn int
	oldest               time.Duration // longest time from reading a record that was repeated to the kill before
}

// entry is a line of an output file.
type entry struct {
	number int
	readAt time.Time
}

// inspect checks that the numbers in the file run from 1 without a gap, stepping back
// only to repeat what was read shortly before a kill.
func inspect(t *testing.T, path string, killed []time.Time) (o outcome) {
	t.Helper()
	seen := []entry{{}} // as if a record 0 had come before the first
	for line := range linesOf(t, path) {
		e, err := parse(line)
		if err != nil {
			o.torn++
			continue
		}
		if e.number > seen[len(seen)-1].number+1 {
			t.Fatalf("%s: %d follows %d", path, e.number, seen[len(seen)-1].number)
		}
		if e.number <= seen[len(seen)-1].number {
			if !o.repeat(seen, e, killed) {
				t.Errorf("%s: %d follows %d although nothing was killed in between", path, e.number, seen[len(seen)-1].number)
			}
		}
		seen = append(seen, e)
		o.last = max(o.last, e.number)
	}
	return o
}

// linesOf yields the lines of a file, of any length: a torn one may be long.
func linesOf(t *testing.T, path string) iter.Seq[[]byte] {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func([]byte) bool) {
		t.Helper()
		defer f.Close()
		for r := bufio.NewReader(f); ; {
			line, err := r.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("cannot read %s: %v", path, err)
			}
			if len(line) > 0 && !yield(line) || err != nil {
				return
			}
		}
	}
}

// TestInspectReadsLongLines has a torn line among the records that is longer than what a
// bufio.Scanner takes: what follows it is not lost.
func TestInspectReadsLongLines(t *testing.T) {
	record := func(n int) string {
		position := base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(n)))
		return fmt.Sprintf("{\"position\":%q,\"metadata\":{\"opencdc.readAt\":\"1\"},\"payload\":{}}\n", position)
	}
	path := filepath.Join(t.TempDir(), "out")
	text := record(1) + strings.Repeat("x", 2*bufio.MaxScanTokenSize) + "\n" + record(2) + record(3)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := inspect(t, path, nil); o.last != 3 || o.torn != 1 {
		t.Errorf("%+v, want the records up to 3 and one torn line", o)
	}
}

// repeat notes that the file steps back to e, and reports whether there was a kill
// between the two reads.
func (o *outcome) repeat(seen []entry, e entry, killed []time.Time) bool {
	first := len(seen) - (seen[len(seen)-1].number - e.number) - 1
	before := seen[max(first, 0)]
	o.repeated += len(seen) - first
	for _, at := range killed {
		if at.After(seen[len(seen)-1].readAt) && at.Before(e.readAt) {
			o.oldest = max(o.oldest, at.Sub(before.readAt))
			return true
		}
	}
	return false
}

// parse reads a line: the number is the line it carries, or its position.
func parse(line []byte) (entry, error) {
	var r struct {
		Position []byte
		Metadata map[string]string
		Payload  struct{ After json.RawMessage }
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return entry{}, err
	}
	text := r.Position
	if len(r.Payload.After) > 0 && r.Payload.After[0] == '"' {
		if err := json.Unmarshal(r.Payload.After, &text); err != nil {
			return entry{}, err
		}
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return entry{}, err
	}
	ns, err := strconv.ParseInt(r.Metadata["opencdc.readAt"], 10, 64)
	return entry{n, time.Unix(0, ns)}, err
}

// catchUp runs an agent until the last line there is to copy has arrived.
func catchUp(t *testing.T, dir, copied string, want int) {
	t.Helper()
	p := startProcess(t, dir)
	p.waitFor(t, fmt.Sprintf("the last of %d lines", want), func() bool {
		return lastSeen(copied) >= want && strings.Contains(p.log.String(), "agent started") // before, it would not know SIGTERM
	})
	p.terminate(t)
}

func lastSeen(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	tail := make([]byte, min(fileSize(path), 64<<10))
	if _, err := f.ReadAt(tail, fileSize(path)-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	lines := bytes.Split(bytes.TrimSpace(tail), []byte{'\n'})
	e, _ := parse(lines[len(lines)-1])
	return e.number
}
