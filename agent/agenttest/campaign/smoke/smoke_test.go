// Package smoke_test runs the built binary like a new user: it starts the demo, changes a file, saves a broken file,
// and kills the agent while it copies lines.
package smoke_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

var (
	kills = flag.Int("kills", 10, "kills of an agent that copies lines")
	lines = flag.Int("lines", 2000, "lines that are written between two kills")
)

// user is a directory that contains the binary, in which commands are run.
type user struct {
	t   *testing.T
	dir string
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t, dir: t.TempDir()}
	if err := built.Binary(filepath.Join(u.dir, "conduit"), "github.com/conduit-agent/conduit/cmd/conduit"); err !=
		nil {
		t.Fatal(err)
	}
	u.conduit("init")
	return u
}

// conduit runs a command and returns its output. The test fails if the command fails.
func (u *user) conduit(args ...string) string {
	u.t.Helper()
	out, err := u.try(args...)
	if err != nil {
		u.t.Fatalf("conduit %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (u *user) try(args ...string) (string, error) {
	cmd := exec.Command("./conduit", args...)
	cmd.Dir = u.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) read(name string) string {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, name))
	if err != nil && !os.IsNotExist(err) {
		u.t.Fatal(err)
	}
	return string(text)
}

// replace saves a file with a text replaced.
func (u *user) replace(name, before, after string) {
	u.t.Helper()
	text := u.read(name)
	if !strings.Contains(text, before) {
		u.t.Fatalf("%s has no %q:\n%s", name, before, text)
	}
	u.write(name, strings.Replace(text, before, after, 1))
}

// agent is a running agent.
type agent struct {
	*exec.Cmd
	log     wait.Buffer
	address string
}

var ready = regexp.MustCompile(`API ready component=api address=(\S+)`)

// run starts an agent and returns once it serves the API. The agent is killed when the test ends, if not before.
func (u *user) run() *agent {
	u.t.Helper()
	a := &agent{Cmd: exec.Command("./conduit", "run", "--api.http.address", "127.0.0.1:0")}
	a.Dir, a.Stdout, a.Stderr = u.dir, &a.log, &a.log
	if err := a.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
		if u.t.Failed() {
			u.t.Logf("log of an agent:\n%s", a.log.String())
		}
	})
	wait.For(u.t, "the API is ready", func() bool {
		found := ready.FindStringSubmatch(a.log.String())
		if found != nil {
			a.address = found[1]
		}
		return found != nil
	}, a.log.String)
	return a
}

// ended waits until the agent has ended after a signal.
func (a *agent) ended(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := a.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil && signal != syscall.SIGKILL {
		t.Errorf("the agent ended with: %v", err)
	}
}

// TestDemo checks that the demo runs and that a saved file takes effect. A broken file is rejected with the position of
// the mistake and stops nothing, and the next good one takes effect.
func TestDemo(t *testing.T) {
	u := newUser(t)
	u.conduit("pipelines", "init")
	a := u.run()
	status := func() string { return u.conduit("status", "--api.address", a.address) }
	records := func() int { return strings.Count(a.log.String(), "INF record={") }
	version := func(n int) func() bool {
		return func() bool {
			running := regexp.MustCompile(`(?m)^demo-pipeline +running +` + strconv.Itoa(n) + ` +` + strconv.Itoa(n) +
				` `)
			return running.MatchString(status())
		}
	}
	wait.For(t, "the demo shows records", func() bool { return records() >= 2 })

	const file = "pipelines/demo-pipeline.yaml"
	u.replace(file, `rate: "1"`, `rate: "1000"`)
	wait.For(t, "the second version runs", version(2), status)
	before := records()
	wait.For(t, "records come faster", func() bool { return records() > before+1000 })

	u.replace(file, "type: source", "type: sauce")
	wait.For(t, "the broken file is refused", func() bool {
		return regexp.MustCompile(`demo-pipeline\.yaml:9:15`).MatchString(a.log.String())
	}, a.log.String)
	before = records()
	wait.For(t, "the pipeline goes on with its last good version", func() bool {
		return records() > before+1000
	}, status)
	if out, err := u.try("pipelines", "validate"); err == nil ||
		!strings.Contains(out, "demo-pipeline.yaml:9:15: error: ") {
		t.Errorf("validate ended with %v and printed:\n%s", err, out)
	}

	u.replace(file, "type: sauce", "type: source")
	u.replace(file, `rate: "1000"`, `rate: "500"`)
	wait.For(t, "the repaired file runs", version(3), status)
	a.ended(t, syscall.SIGTERM)
}

// An agent that is killed repeatedly while it copies lines loses none, and keeps their order.
func TestKill(t *testing.T) {
	u := newUser(t)
	u.write("pipelines/copy.yaml", `version: "2.2"
pipelines:
  - id: copy
    connectors:
      - id: in
        type: source
        plugin: file
        settings: {path: in.txt}
      - id: out
        type: destination
        plugin: file
        settings:
          path: out.txt
          sdk.record.format: template
          sdk.record.format.options: '{{ printf "%s" .Payload.After }}'
`)
	in, err := os.Create(filepath.Join(u.dir, "in.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	written := 0
	for round := range *kills {
		a := u.run()
		for range *lines {
			if _, err := fmt.Fprintf(in, "line %d.\n", written); err != nil {
				t.Fatal(err)
			}
			written++
		}
		// Each kill happens at a different place: when some of the new lines have arrived.
		some := written - *lines + *lines*(round+1)/(*kills+1)
		wait.For(t, fmt.Sprintf("line %d is copied", some), func() bool {
			return copied(t, u, written, false) > some
		}, a.log.String)
		a.ended(t, syscall.SIGKILL)
	}
	a := u.run()
	wait.For(t, "all lines are copied", func() bool { return copied(t, u, written, false) == written }, a.log.String)
	a.ended(t, syscall.SIGTERM)
	if n := copied(t, u, written, true); n != written {
		t.Errorf("%d of %d lines are there at the end", n, written)
	}
}

// copied returns the number of lines that have arrived. With whole, the text must end with a complete line.
func copied(t *testing.T, u *user, written int, whole bool) int {
	t.Helper()
	text := []byte(u.read("out.txt"))
	if end := bytes.LastIndexByte(text, '\n') + 1; end < len(text) {
		if whole {
			t.Errorf("the last line is cut off: %q", text[end:])
		}
		text = text[:end]
	}
	n, err := count(text, written, *kills)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// count returns the number of lines in a copy of the first written ones. It fails if a line is missing before another
// one, out of order, or damaged. After a kill, lines may repeat from any earlier one, and the line that was being
// written may be cut off.
func count(text []byte, written, kills int) (int, error) {
	next, most, cut := 0, 0, 0
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		line := scanner.Text()
		number, ok := strings.CutPrefix(strings.TrimSuffix(line, "."), "line ")
		n, err := strconv.Atoi(number)
		begun := strings.HasPrefix("line ", line) || err == nil && n <= most
		if cut < kills && begun && !strings.HasSuffix(line, ".") {
			cut, next = cut+1, most // the next line may be any earlier one
			continue
		}
		if !ok || err != nil || n >= written || line != fmt.Sprintf("line %d.", n) {
			return 0, fmt.Errorf("%q is not a line that was written", line)
		}
		if n > most || n > next && next < most {
			return 0, fmt.Errorf("line %d follows line %d", n, next-1)
		}
		next = n + 1
		most = max(most, next)
	}
	return most, nil
}

func TestCount(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "0 <nil>",
		"0.|1.|2.":            "3 <nil>",
		"0.|1.|2.|1.|2.|3.":   "4 <nil>",
		"0.|1.|2|0.|1.|2.|3.": "4 <nil>",
		"0.|1.|0|1.|2.":       "3 <nil>",
		"0.|2.":               "0 line 2 follows line 0",
		"0.|1.|2.|0.|2.":      "0 line 2 follows line 0",
		"0.|1|2.":             "0 line 2 follows line 0",
		"0.|1|0.|1|0.|1.":     `0 "line 1" is not a line that was written`,
		"0.|7|1.":             `0 "line 7" is not a line that was written`,
		"0.|01.":              `0 "line 01." is not a line that was written`,
		"0.|9.":               `0 "line 9." is not a line that was written`,
	} {
		lines := "line " + strings.ReplaceAll(text, "|", "\nline ") + "\n"
		if text == "" {
			lines = ""
		}
		if got := fmt.Sprint(count([]byte(lines), 5, 1)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
