//go:build linux && (amd64 || arm64)

package clock_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/clock"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	year  = 365 * 24 * time.Hour
	rate  = 100 // records per second of the pipeline ticks
	token = "0123456789abcdef0123456789abcdef"
)

var leaps = flag.Int("leaps", 3, "how often the clock of an agent leaps, 5 at most")

// host is a machine with a settable clock and an agent, the released binary.
type host struct {
	t    *testing.T
	dir  string
	at   *clock.Clock
	cmd  *exec.Cmd
	log  *wait.Buffer
	url  string
	sent []string // lines for the pipeline copy
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), at: clock.New(t)}
	if err := built.Binary(h.path("conduit"), "github.com/conduit-agent/conduit/cmd/conduit"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.path("pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.write("token", token)
	h.write("conduit.yaml", `pipelines: {deletion-grace: 200ms, confirm: 100ms, error-recovery: {min-delay: 100ms,
		max-delay: 500ms}}
api: {http: {address: "127.0.0.1:0"}, auth: {admin-token-file: token}}
`)
	h.declare("ticks", fmt.Sprintf(`builtin:generator, settings: {rate: "%d", format.type: raw}`, rate), "ticks.txt",
		".Position")
	h.declare("gone", `builtin:generator, settings: {rate: "1", format.type: raw}`, "gone.txt", ".Position")
	h.declare("broken", `builtin:generator, settings: {rate: "1", format.type: raw}`, "missing/out.txt", ".Position")
	h.declare("copy", "builtin:file, settings: {path: in.txt}", "copy.txt", ".Payload.After")
	t.Cleanup(func() {
		h.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of the agent:\n%s", h.log)
		}
	})
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

func (h *host) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(h.path(name+".saved"), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(h.path(name+".saved"), h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// declare saves the file of a pipeline that writes a field of each record as a line.
func (h *host) declare(id, source, out, field string) {
	h.t.Helper()
	h.write("pipelines/"+id+".yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %s
    status: running
    connectors:
      - {id: in, type: source, plugin: %s}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s, sdk.record.format: template,
         sdk.record.format.options: '{{printf "%%s" %s}}'}}
`, id, source, out, field))
}

func (h *host) start() {
	h.t.Helper()
	h.log = &wait.Buffer{}
	h.cmd = exec.Command(h.path("conduit"), "run")
	h.cmd.Dir, h.cmd.Stdout, h.cmd.Stderr = h.dir, h.log, h.log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.at.Join(h.cmd)
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ready := regexp.MustCompile(`API ready .*address=(\S+)`)
	h.await("the API", func() bool { return ready.MatchString(h.log.String()) })
	h.url = "http://" + ready.FindStringSubmatch(h.log.String())[1]
}

func (h *host) end(s syscall.Signal) {
	if h.cmd != nil {
		_ = h.cmd.Process.Signal(s)
		_ = h.cmd.Wait()
		h.cmd = nil
	}
}

func (h *host) await(what string, done func() bool) {
	h.t.Helper()
	wait.For(h.t, fmt.Sprintf("%s, with the clock at %v", what, h.at.Now().UTC().Format(time.DateTime)), done)
}

func (h *host) lines(name string) []string {
	content, err := os.ReadFile(h.path(name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

// get returns the answer of the API to a request with the token.
func (h *host) get(path string) string {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %s %s %v", path, response.Status, body, err)
	}
	return string(body)
}

// An agent whose clock starts in 1970, and then jumps to today, back, and forward by years, keeps its pace: nothing
// waits for the clock, nothing happens too early, nothing is lost.
func TestAgentGoesOnWhenTheClockIsSet(t *testing.T) {
	load.Parallel(t, load.Agent)
	h := newHost(t)
	boot := time.Until(time.Unix(30, 0)) // a host without a battery for its clock
	h.at.SetAhead(boot)
	h.start()
	for _, ahead := range []time.Duration{boot, 0, -time.Hour, 10 * year, time.Hour}[:*leaps] {
		h.leap(ahead)
	}
	h.end(syscall.SIGKILL)
	h.at.SetAhead(boot) // the state is from the future
	h.start()
	h.leap(0)
	h.end(syscall.SIGTERM)
	h.nothingIsLost()
}

// leap sets the clock while pipelines run, one is about to be deleted, and one waits for its next attempt.
func (h *host) leap(ahead time.Duration) {
	h.t.Helper()
	h.await("what is to go to run", func() bool { return len(h.lines("gone.txt")) > 0 })
	h.logs("no longer declares it", func() {
		if err := os.Rename(h.path("pipelines/gone.yaml"), h.path("gone.yaml")); err != nil {
			h.t.Fatal(err)
		}
	})
	before, began := len(h.lines("ticks.txt")), time.Now()
	h.logs("pipeline stopped component=reconcile pipeline_id=gone", func() { h.at.SetAhead(ahead) })
	h.logs("pipeline_id=broken retry_at", func() {})
	h.await("records at their pace", func() bool { return len(h.lines("ticks.txt")) >= before+rate/4 })
	// The clock jumps by at least an hour. An agent that followed it would generate the records for the hour at once.
	if n, most := len(h.lines("ticks.txt"))-before, time.Since(began)+time.Minute; float64(n) > rate*most.Seconds() {
		h.t.Errorf("%v ahead: %d records came, which take longer than %v", ahead, n, most)
	}
	h.edits()
	h.answers(ahead)
	if err := errorsOf(os.Remove(h.path("gone.txt")),
		os.Rename(h.path("gone.yaml"), h.path("pipelines/gone.yaml"))); err != nil {
		h.t.Fatal(err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// logs performs an action and waits for the line that the agent then logs, with the time of the clock.
func (h *host) logs(text string, do func()) {
	h.t.Helper()
	from := len(h.log.String())
	do()
	var line string
	h.await("the log to say "+text, func() bool {
		said := h.log.String()[from:]
		i := strings.LastIndex(said, text)
		if i < 0 || !strings.Contains(said[i:], "\n") {
			return false
		}
		line = said[strings.LastIndexByte(said[:i], '\n')+1 : i]
		return true
	})
	stamp, _, _ := strings.Cut(line, " ")
	if at, err := time.Parse(time.RFC3339, stamp); err != nil || h.at.Now().Sub(at).Abs() > wait.Limit {
		h.t.Errorf("the log says %q at %s, which is %v by the clock: %v", text, stamp, h.at.Now().UTC(), err)
	}
}

// edits changes a pipeline to a version that runs and to one that cannot run, which is rolled back.
func (h *host) edits() {
	h.t.Helper()
	const from = "builtin:file, settings: {path: in.txt}"
	line := fmt.Sprintf("line-%d", len(h.sent))
	h.sent = append(h.sent, line)
	out := "copy-" + line + ".txt"
	h.logs("pipeline was changed without a restart component=reconcile pipeline_id=copy", func() {
		h.declare("copy", from, out, ".Payload.After")
	})
	if err := appendTo(h.path("in.txt"), line+"\n"); err != nil {
		h.t.Fatal(err)
	}
	h.await("the line "+line+" at its new place", func() bool {
		return strings.Contains(strings.Join(h.lines(out), " "), line)
	})
	h.logs("rolled back to the last known good version component=reconcile pipeline_id=copy", func() {
		h.declare("copy", from, "missing/copy.txt", ".Payload.After")
	})
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errorsOf(err, file.Close())
}

// answers checks the times in the answers of the agent and its commands.
func (h *host) answers(ahead time.Duration) {
	h.t.Helper()
	for _, line := range strings.Split(h.get("/metrics"), "\n") {
		i := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || i < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil || value < 0 || strings.Contains(line, "oldest_unacked_seconds") && value > wait.Limit.Seconds() {
			h.t.Errorf("%v ahead: metric %s", ahead, line)
		}
	}
	status := exec.Command(h.path("conduit"), "status", "--json", "--api.address", h.url)
	status.Dir = h.dir
	status.Env = append(os.Environ(), "CONDUIT_API_TOKEN="+token)
	h.at.Join(status)
	out, err := status.Output()
	var answer struct {
		Pipelines []struct {
			ID    string
			State struct {
				Phase string
			}
			Rates *struct{ RecordsPerSecond float64 }
		}
	}
	if err := errorsOf(err, json.Unmarshal(out, &answer)); err != nil {
		h.t.Fatalf("%v ahead: conduit status: %v\n%s", ahead, err, out)
	}
	for _, p := range answer.Pipelines {
		if p.ID == "ticks" && (p.State.Phase != "running" || p.Rates != nil &&
			(p.Rates.RecordsPerSecond < 0 || p.Rates.RecordsPerSecond > 10*rate)) {
			h.t.Errorf("%v ahead: %+v", ahead, p)
		}
	}
	if ages := regexp.MustCompile(`-\d+(\.\d+)?(ms|s|m|h)`).Find(out); ages != nil {
		h.t.Errorf("%v ahead: something is %s old: %s", ahead, ages, out)
	}
}

// nothingIsLost checks that all numbers up to the last one, and all lines, have arrived.
func (h *host) nothingIsLost() {
	h.t.Helper()
	last := 0
	for _, text := range h.lines("ticks.txt") {
		if n, err := strconv.Atoi(text); err != nil || n > last+1 {
			h.t.Fatalf("%q follows %d: %v", text, last, err)
		} else if n > last {
			last = n
		}
	}
	files, err := filepath.Glob(h.path("copy-*.txt"))
	if err != nil {
		h.t.Fatal(err)
	}
	var arrived []string
	for _, path := range files {
		arrived = append(arrived, h.lines(filepath.Base(path))...)
	}
	all := " " + strings.Join(arrived, " ") + " "
	for _, line := range h.sent {
		if !strings.Contains(all, " "+line+" ") {
			h.t.Errorf("%s did not arrive: %s", line, all)
		}
	}
}
