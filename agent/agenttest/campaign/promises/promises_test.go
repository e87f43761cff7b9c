package promises

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestPromises checks, on the built binary, that the agent keeps its promises: one script for each.
func TestPromises(t *testing.T) {
	bin := script.Binaries(t)
	shipped, err := filepath.Abs(filepath.Join(script.Root, "cmd/conduit/systemd"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("BIN", bin)
			tmp, err := os.MkdirTemp("", "") // sockets are made below it, whose paths must be short
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(tmp) })
			e.Setenv("TMPDIR", tmp)
			e.Setenv("CONDUIT_PIPELINES_ERROR_RECOVERY_MIN_DELAY", "1h") // nothing recovers by itself
			e.Setenv("CONDUIT_PIPELINES_CONFIRM", "10ms")                // and a running version counts as good at once
			e.Values[hostKey{}] = &host{env: slices.Clone(e.Vars), shipped: shipped}
			return errors.Join(os.Mkdir(filepath.Join(e.WorkDir, "pipelines"), 0o755),
				os.WriteFile(filepath.Join(e.WorkDir, "bystander.yaml"), []byte(bystander), 0o644),
				os.WriteFile(filepath.Join(e.WorkDir, "orders.yaml"), []byte(orders), 0o644))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually": script.Eventually, "exits": script.Exits,
			"start": onHost((*host).start), "unread": onHost((*host).unread), "terminate": onHost((*host).terminate),
			"crash": onHost((*host).crash), "signal": onHost((*host).signal),
			"logged": onHost((*host).logged), "lines": onHost((*host).lines), "read": onHost((*host).read),
			"untouched": onHost((*host).untouched),
			"waiting":   onHost((*host).waiting), "peak": onHost((*host).peak),
			"processes": processes, "storm": storm, "scribble": scribble, "service": onHost((*host).service),
			"notified": notified, "silent": silent,
		},
	})
}

// Every script has these files, to copy and to change. bystander.txt gets a number for every record, out.txt every line
// of in.txt.
const (
	bystander = `version: "2.2"
pipelines:
  - id: bystander
    connectors:
      - {id: in, type: source, plugin: builtin:generator, settings: {rate: 200, format.type: raw}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: bystander.txt, sdk.record.format: template,
         sdk.record.format.options: '{{printf "%s" .Position}}'}}
`
	orders = `version: "2.2"
pipelines:
  - id: orders
    status: running
    connectors:
      - id: in
        type: source
        plugin: file
        settings:
          path: in.txt
      - id: out
        type: destination
        plugin: file
        settings:
          path: out.txt
          sdk.record.format: template
          sdk.record.format.options: '{{printf "%s" .Payload.After}}'
`
)

// host is the environment of the agent of a script.
type host struct {
	env     []string
	shipped string // directory of the unit
	agent   *exec.Cmd
	ended   chan error // result of agent
	from    int64      // offset of the log of agent in agent.log
}

type hostKey struct{}

func onHost(f func(*host, *testscript.TestScript, bool, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		f(ts.Value(hostKey{}).(*host), ts, neg, args)
	}
}

// start [NAME=VALUE...] [FLAG...] starts the agent and returns when its API is served,
// at an address that the commands of the script then use. The log goes to agent.log.
func (h *host) start(ts *testscript.TestScript, _ bool, args []string) {
	flags := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if flags < 0 {
		flags = len(args)
	}
	h.run(ts, append([]string{"conduit", "run"}, args[flags:]...), args[:flags])
}

// run runs an agent and waits for its API.
func (h *host) run(ts *testscript.TestScript, command, env []string) {
	log, err := os.OpenFile(ts.MkAbs("agent.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	ts.Check(err)
	defer log.Close()
	h.from, err = log.Seek(0, io.SeekEnd)
	ts.Check(err)
	h.launch(ts, command, env, log)
	h.logged(ts, false, []string{"API ready"})
	ts.Setenv("CONDUIT_API_HTTP_ADDRESS",
		regexp.MustCompile(`API ready .*address=(\S+)`).FindStringSubmatch(h.log(ts))[1])
}

// unread [FLAG...] starts an agent whose log and stderr are a full pipe without a reader. Its API is at a socket.
func (h *host) unread(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs("agent.log"), nil, 0o644))
	var ends [2]int
	ts.Check(syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK))
	ts.Defer(func() { _ = syscall.Close(ends[0]) })
	for err := error(nil); err == nil; _, err = syscall.Write(ends[1], make([]byte, 4096)) {
		continue
	}
	ts.Check(syscall.SetNonblock(ends[1], false))
	pipe := os.NewFile(uintptr(ends[1]), "pipe")
	defer pipe.Close()
	socket := filepath.Join(ts.Getenv("TMPDIR"), "api.sock")
	ts.Setenv("CONDUIT_API_HTTP_SOCKET", socket)
	h.launch(ts, append([]string{"conduit", "run"}, args...), []string{"CONDUIT_API_HTTP_SOCKET=" + socket}, pipe)
}

func (h *host) launch(ts *testscript.TestScript, command, env []string, log *os.File) {
	agent, ended := exec.Command(filepath.Join(ts.Getenv("BIN"), command[0]), command[1:]...), make(chan error, 1)
	agent.Dir, agent.Stdout, agent.Stderr = ts.MkAbs("."), log, log
	agent.Env = slices.Concat(h.env, []string{"CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0"}, env)
	ts.Check(agent.Start())
	go func() { ended <- agent.Wait() }()
	ts.Defer(func() { _ = agent.Process.Kill() })
	h.agent, h.ended = agent, ended
}

// terminate ends the agent with SIGTERM. It must exit without an error.
func (h *host) terminate(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(h.agent.Process.Signal(syscall.SIGTERM))
	if err := h.end(ts); err != nil {
		ts.Fatalf("the agent ended with %v:\n%s", err, h.log(ts))
	}
}

// signal NAME sends a signal to the agent. STOP has taken effect when it returns.
func (h *host) signal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "HUP": syscall.SIGHUP}
	ts.Check(h.agent.Process.Signal(signals[args[0]]))
	if args[0] == "STOP" && !script.InTime(h.stopped) {
		ts.Fatalf("the agent does not stop")
	}
}

// stopped reports whether all threads of the agent are stopped.
func (h *host) stopped() bool {
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.agent.Process.Pid))
	return err == nil && !slices.ContainsFunc(all, func(path string) bool {
		stat, err := os.ReadFile(path)
		return err == nil && !strings.Contains(string(stat), ") T ")
	})
}

// crash ends the agent with SIGKILL.
func (h *host) crash(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(h.agent.Process.Kill())
	_ = h.end(ts)
}

func (h *host) end(ts *testscript.TestScript) error {
	select {
	case err := <-h.ended:
		return err
	case <-time.After(wait.Limit):
		ts.Fatalf("the agent does not end:\n%s", h.log(ts))
		return nil
	}
}

// log returns the log of the agent.
func (h *host) log(ts *testscript.TestScript) string { return ts.ReadFile("agent.log")[h.from:] }

// logged PATTERN [N] waits until the pattern matches the log of the agent N times, by default once; with ! it checks
// that there is no match.
func (h *host) logged(ts *testscript.TestScript, neg bool, args []string) {
	matches(ts, neg, args, func() string { return h.log(ts) })
}

func matches(ts *testscript.TestScript, neg bool, args []string, text func() string) {
	pattern, want := regexp.MustCompile("(?m)"+args[0]), 1
	if len(args) > 1 {
		want = atoi(ts, args[1])
	}
	n := 0
	enough := func() bool { n = len(pattern.FindAllString(text(), -1)); return n >= want }
	if neg && enough() || !neg && !script.InTime(enough) {
		ts.Fatalf("%d times %q:\n%s", n, args[0], text())
	}
}

// lines N FILE waits until the file has exactly N lines.
func (h *host) lines(ts *testscript.TestScript, _ bool, args []string) {
	want, n := atoi(ts, args[0]), 0
	script.InTime(func() bool { n = len(linesOf(ts, args[1])); return n >= want })
	if n != want {
		ts.Fatalf("%s has %d lines, want %d:\n%s", args[1], n, want, h.log(ts))
	}
}

// read N PIPELINE waits until the sources of the pipeline have read N records since the start of the agent, regardless
// of their progress downstream.
func (h *host) read(ts *testscript.TestScript, _ bool, args []string) {
	want, n := float64(atoi(ts, args[0])), 0.0
	series := regexp.MustCompile(`(?m)^conduit_connector_records_total\{.*pipeline_id="` + regexp.QuoteMeta(args[1]) +
		`",.*type="source"\} (\S+)$`)
	c := client.Client{URL: "http://" + ts.Getenv("CONDUIT_API_HTTP_ADDRESS")}
	if !script.InTime(func() bool {
		text, err := c.Metrics(context.Background())
		ts.Check(err)
		n = 0
		for _, found := range series.FindAllSubmatch(text, -1) {
			one, err := strconv.ParseFloat(string(found[1]), 64)
			ts.Check(err)
			n += one
		}
		return n >= want
	}) {
		ts.Fatalf("%s has read %v records, want %v:\n%s", args[1], n, want, h.log(ts))
	}
}

// waiting N waits until N sources wait for memory.
func (h *host) waiting(ts *testscript.TestScript, _ bool, args []string) {
	want, n := atoi(ts, args[0]), 0
	series := regexp.MustCompile(`(?m)^conduit_memory_waiting_sources (\d+)$`)
	c := client.Client{URL: "http://" + ts.Getenv("CONDUIT_API_HTTP_ADDRESS")}
	if !script.InTime(func() bool {
		text, err := c.Metrics(context.Background())
		ts.Check(err)
		if found := series.FindSubmatch(text); found != nil {
			n = atoi(ts, string(found[1]))
		}
		return n >= want
	}) {
		ts.Fatalf("%d sources wait for memory, want %d:\n%s", n, want, h.log(ts))
	}
}

// peak MIB checks the peak memory of the agent.
func (h *host) peak(ts *testscript.TestScript, _ bool, args []string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.agent.Process.Pid))
	ts.Check(err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		ts.Fatalf("the kernel does not say how much memory the agent took")
	}
	if kib := atoi(ts, string(found[1])); kib > atoi(ts, args[0])<<10 {
		ts.Fatalf("the agent took %d KiB of memory", kib)
	}
}

// untouched checks that this agent started the pipeline bystander once, that its records keep coming, and that no
// record is missing or repeated.
func (h *host) untouched(ts *testscript.TestScript, _ bool, _ []string) {
	const started = "pipeline runs component=reconcile pipeline_id=bystander"
	h.logged(ts, false, []string{started})
	before, n := len(linesOf(ts, "bystander.txt")), 0
	if !script.InTime(func() bool { n = len(linesOf(ts, "bystander.txt")); return n > before+10 }) {
		ts.Fatalf("there are no records beyond %d:\n%s", n, h.log(ts))
	}
	for i, line := range linesOf(ts, "bystander.txt") {
		if line != strconv.Itoa(i+1) {
			ts.Fatalf("record %q where %d was expected", line, i+1)
		}
	}
	h.logged(ts, true, []string{started, "2"})
}

// processes N waits until N processes with executables in connectors run.
func processes(ts *testscript.TestScript, _ bool, args []string) {
	want, n := atoi(ts, args[0]), 0
	if !script.InTime(func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/exe")
		ts.Check(err)
		n = 0
		for _, link := range all {
			if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, ts.MkAbs("connectors")+"/") {
				n++
			}
		}
		return n == want
	}) {
		ts.Fatalf("%d processes, want %d", n, want)
	}
}

// storm FILE FILE writes to the files so often that the kernel drops events.
func storm(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	ts.Check(err)
	var files [2]*os.File
	for i := range files {
		files[i], err = os.Create(ts.MkAbs(args[i]))
		ts.Check(err)
		defer files[i].Close()
	}
	for i := range 2 * atoi(ts, strings.TrimSpace(string(text))) {
		_, err := files[i%2].WriteString("x") // equal consecutive events count as one
		ts.Check(err)
	}
}

// scribble FILE... creates the files and appends to them every millisecond, until one is removed.
func scribble(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), nil, 0o644))
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, name := range args {
				f, err := os.OpenFile(ts.MkAbs(name), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					return
				}
				_, _ = f.WriteString("#\n")
				f.Close()
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	ts.Defer(func() { close(stop); <-done })
}

// linesOf returns the complete lines of a file, none if it does not exist.
func linesOf(ts *testscript.TestScript, file string) []string {
	b, err := os.ReadFile(ts.MkAbs(file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	all := strings.Split(string(b), "\n")
	return all[:len(all)-1]
}

func atoi(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}
