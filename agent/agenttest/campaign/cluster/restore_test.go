package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestRestoredStream restores the stream of the cluster from an older backup, or loses it, while pipelines run. They
// stop, and do not overwrite the content of the store. Once all members are restarted they resume from there: every
// line arrives.
func TestRestoredStream(t *testing.T) {
	t.Parallel()
	for name, backup := range map[string]string{"older backup": "backup", "no backup": "none"} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Server+2*load.Agent)
			f := newFleet(t, 1, 2, 2, 5*time.Second)
			nats, js := f.servers[0], filepath.Join(f.servers[0].Dir, "js")
			f.feed(10)
			f.await()
			f.replaceStream(func() error {
				return exec.Command("cp", "-a", js, filepath.Join(nats.Dir, "backup")).Run()
			})
			for _, m := range f.members {
				m.awaitLog("connected to NATS")
			}
			f.feed(10)
			f.awaitInClaims()
			read := map[*member]int{}
			for _, m := range f.members {
				read[m] = len(m.log.String())
			}
			f.replaceStream(func() error {
				if err := os.RemoveAll(js); err != nil || backup == "none" {
					return err
				}
				return os.Rename(filepath.Join(nats.Dir, backup), js)
			})
			f.feed(10)
			wait.For(t, "every run to end", func() bool {
				ended := map[string]bool{} // a run fails if it has to save a position before it is told to stop
				for _, m := range f.members {
					for _, found := range pipelineEnded.FindAllStringSubmatch(m.log.String()[read[m]:], -1) {
						ended[found[1]] = true
					}
				}
				return len(ended) == 2
			})
			for _, m := range f.members {
				m.kill()
			}
			for _, m := range f.members {
				m.start()
			}
			f.await()
		})
	}
}

// awaitInClaims waits until the claims contain the positions behind all lines. Members that do not own the pipelines
// read them there.
func (f *fleet) awaitInClaims() {
	f.t.Helper()
	f.await()
	for i := range f.written {
		read, err := os.Stat(f.in(i))
		if err != nil {
			f.t.Fatal(err)
		}
		for _, m := range f.members {
			answer := ""
			wait.For(f.t, fmt.Sprintf("%s to have the position of p%d", m.name, i), func() (saved bool) {
				saved, answer = m.saved(fmt.Sprintf("p%d:in", i), read.Size())
				return saved
			}, func() string { return answer })
		}
	}
}

var pipelineEnded = regexp.MustCompile(`msg="pipeline (?:stopped|failed, restarting it)" .*pipeline_id=(\S+)`)

// replaceStream changes the files of the server of the fleet while it does not run.
func (f *fleet) replaceStream(change func() error) {
	f.t.Helper()
	f.servers[0].Kill()
	if err := change(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.servers[0].Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}
