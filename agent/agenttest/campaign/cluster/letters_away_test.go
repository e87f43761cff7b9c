package cluster_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestLettersWithoutNATS makes a pipeline refuse lines while NATS is unreachable: a strict pipeline stops, a relaxed
// one reads on until it has a dead letter to save. When NATS is back, each line is written or is a dead letter.
// TestSharedLetters covers records that become dead letters again.
func TestLettersWithoutNATS(t *testing.T) {
	t.Parallel()
	for terms, reason := range map[string]string{"strict": "SelfStopped", "relaxed": "Disconnected"} {
		t.Run(terms, func(t *testing.T) {
			load.Parallel(t, load.Server+load.Agent)
			proxy := network.NewProxy(t, server.StartNATS(t, 1)[0].Addr)
			r := &refusing{dir: t.TempDir(), terms: "cluster: " + terms}
			if err := os.Mkdir(filepath.Join(r.dir, "pipelines"), 0o755); err != nil {
				t.Fatal(err)
			}
			m := newMember(t, "m", filepath.Join(r.dir, "pipelines"), "nats://"+proxy.Addr(), 5*time.Second)
			m.start()
			m.awaitLog("reason=Joined")
			r.feed(t, 20)
			r.declare(t, false)
			m.awaitLetters(10)
			proxy.Hold(true)
			r.feed(t, 20)
			if terms == "relaxed" {
				wait.For(t, "the first good line to be written", func() bool { return r.written(t)["good 21"] > 0 })
			}
			m.awaitLog("reason=" + reason)
			proxy.Heal()
			m.awaitLetters(20)
			for i := 1; i < r.lines; i += 2 {
				wait.For(t, "every good line to be written", func() bool {
					return r.written(t)[fmt.Sprint("good ", i)] > 0
				})
			}
			refused := map[string]bool{}
			for _, l := range m.letters() {
				var record struct {
					Payload struct{ After json.RawMessage }
				}
				if err := json.Unmarshal(decoded[spec.DeadLetter](m, "GET", fmt.Sprint(lettersPath, "/", l.ID)).Record,
					&record); err != nil {
					t.Fatal(err)
				}
				refused[string(record.Payload.After)] = true
			}
			if len(refused) != 20 {
				t.Errorf("the dead letters are %d different lines: %v", len(refused), slices.Sorted(maps.Keys(refused)))
			}
		})
	}
}
