//go:build amd64 || arm64

package faults_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/faults"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// A pipeline that copies lines and refuses some.
const refusing = `version: "2.2"
pipelines:
  - id: p
    dead-letter-queue: {window-size: 0}
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: "%[1]s/in.txt"}}
      - id: out
        type: destination
        plugin: builtin:file
        settings: {path: "%[1]s/out.txt", sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}
    processors:
      - {id: e, plugin: error, condition: '{{ hasPrefix "bad" (printf "%%s" .Payload.After) }}'}
`

// While the disk of the state is full nothing is acknowledged, and the agent reports the reason; when space is free it
// continues without a restart, and no line and no dead letter is lost.
func TestTheDiskOfTheStateIsFull(t *testing.T) {
	load.Parallel(t, load.Agent)
	state := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", state).CombinedOutput(); err != nil {
		t.Fatalf("cannot mount a small file system, run it as root: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", state).Run() })
	a := agenttest.Start(t, "", func(c *config.Config) { c.DB.SQLite.Path = filepath.Join(state, "conduit.db") })
	input, lines, bad := a.Path("in.txt"), 0, 0
	feed := func() {
		var text strings.Builder
		for range 50 {
			fmt.Fprintf(&text, "line %d\n", lines)
			lines++
		}
		fmt.Fprintf(&text, "bad %d\n", bad)
		bad++
		add(t, input, text.String())
	}
	feed()
	a.Save("p.yaml", fmt.Sprintf(refusing, a.Dir))
	a.Wait("the first lines", func() bool { return distinct(t, a.Path("out.txt")) == lines })

	fill := filepath.Join(state, "fill")
	if err := os.WriteFile(fill, make([]byte, 4<<20), 0o600); err == nil {
		t.Fatal("the file system is not full")
	}
	a.Wait("the agent to say that there is no space", func() bool {
		feed()
		err := a.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "no space left for the store") &&
			strings.Contains(err.Error(), "free some space")
	})
	a.Wait("the pipeline to say why", func() bool {
		s := a.State("p")
		return s.Phase == spec.PhaseRecovering && strings.Contains(s.Error, "no space left")
	})
	if all, err := a.Agent.Store.Declarations(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("reading: %v, %v", all, err)
	}
	if body := fetch(t, "http://"+a.Address()+"/v1/agent"); !strings.Contains(body, `"problem":"`) ||
		!strings.Contains(body, `"fileSystem":"tmpfs"`) {
		t.Errorf("/v1/agent says %.600s", body)
	}

	a.Wait("the log to say so", func() bool {
		return strings.Contains(a.Log(), "cannot save the state of the agent")
	})
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	a.Wait("the agent to be ready", func() bool { return a.Ready(t.Context()) == nil })
	a.WaitPhase("p", spec.PhaseRunning, 0)
	a.Wait("all lines", func() bool { return distinct(t, a.Path("out.txt")) == lines })
	a.Wait("all dead letters", func() bool {
		return strings.Contains(fetch(t, "http://"+a.Address()+"/v1/pipelines/p/dead-letters?limit=1"),
			fmt.Sprintf(`"count":%d`, bad))
	})
	a.Wait("the log to say that it is over", func() bool {
		return strings.Contains(a.Log(), "the state of the agent can be saved again")
	})
}

// add appends to a file.
func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// distinct returns the number of different lines in a file.
func distinct(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	all := map[string]bool{}
	for line := range bytes.Lines(content) {
		all[string(line)] = true
	}
	return len(all)
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// While the disk of the state fails, or is read-only, the agent reports it, and it continues when the fault ends.
func TestTheDiskOfTheStateFails(t *testing.T) {
	for errno, says := range map[syscall.Errno]string{syscall.EIO: "store cannot be read or written",
		syscall.EROFS: "store is read-only"} {
		t.Run(errno.Error(), func(t *testing.T) {
			load.Parallel(t, load.Agent)
			dir := agenttest.NewDir(t)
			out := filepath.Join(dir, "p.jsonl")
			file := []byte(agenttest.Generated(dir, "p", 500, ""))
			if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), file, 0o600); err != nil {
				t.Fatal(err)
			}
			p := process.New(dir)
			w := faults.Watch(t, p.Cmd, dir)
			var failing atomic.Bool
			w.Decide(func(c faults.Call) syscall.Errno {
				if failing.Load() && strings.HasPrefix(filepath.Base(c.Path), "conduit.db") &&
					!strings.HasSuffix(c.Path, "-shm") {
					return errno
				}
				return 0
			})
			if err := p.Cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			p.WaitFor(t, "records are written", func() bool { return len(process.Written(t, out)) >= 200 })
			failing.Store(true)
			p.WaitFor(t, "the agent says that it cannot save", func() bool {
				return strings.Contains(p.Log.String(), "cannot save the state of the agent")
			})
			p.WaitFor(t, "the pipeline says why", func() bool {
				return strings.Contains(p.Log.String(), "pipeline failed") && strings.Contains(p.Log.String(), says)
			})
			before := len(process.Written(t, out))
			failing.Store(false)
			p.WaitFor(t, "the agent saves again", func() bool {
				return strings.Contains(p.Log.String(), "the state of the agent can be saved again")
			})
			p.WaitFor(t, "records go on", func() bool { return len(process.Written(t, out)) > before+500 })
			p.Terminate(t)
			times := process.Written(t, out)
			for n := 1; n <= len(times); n++ {
				if times[n] == 0 {
					t.Fatalf("record %d of %d is lost", n, len(times))
				}
			}
		})
	}
}
