package kill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// TestJournaldSource reads a journal, which has no server.
func TestJournaldSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:journald", Number: journalNumber,
		System: func(t *testing.T, _ string) *kill.System {
			j := server.NewJournal(t)
			if err := j.Append("OF=test\n", `{"n":0}`); err != nil { // creates the journal
				t.Fatal(err)
			}
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"directory": j.Dir, "matches": "OF=ledger"}
				},
				Produce: func(_ context.Context, first, n int) error {
					var messages []string
					for i := range n {
						messages = append(messages, fmt.Sprintf(`{"n":%d}`, first+i))
					}
					return j.Append("OF=ledger\n", messages...)
				},
			}
		},
	})
}

// journalNumber returns the number in the message of an entry.
func journalNumber(r *kill.Line) (int, error) {
	var entry struct{ Message string }
	var message struct{ N int }
	if err := r.Decode(&entry); err != nil {
		return 0, err
	}
	err := json.Unmarshal([]byte(entry.Message), &message)
	return message.N, err
}

// TestJournaldExample runs the example of the connector's page, with the journal and the collector
// of the test.
func TestJournaldExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	j, collector := server.NewJournal(t), startAPI(t, t.TempDir())
	if err := j.Append("PRIORITY=3\n_SYSTEMD_UNIT=ssh.service\n", "it failed"); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/journald/README.md")
	file = replace(t, file, "{priority: info}", "{priority: info, directory: "+j.Dir+"}")
	file = replace(t, file, "{url: https://collector.example.com/events}",
		"{url: 'http://"+collector.addr+"/', auth.token: '${file:"+collector.token+"}'}")
	a.Save("journal.yaml", file)
	a.WaitPhase("journal", spec.PhaseRunning, 1)
	has := func(text string) func() bool {
		return func() bool {
			stored, _ := os.ReadFile(filepath.Join(collector.dir, "stored"))
			return strings.Contains(string(stored), text)
		}
	}
	a.Wait("what was there", has(`"MESSAGE":"it failed"`))
	if err := j.Append("PRIORITY=7\n", "not asked for"); err != nil {
		t.Fatal(err)
	}
	if err := j.Append("PRIORITY=6\n", "more"); err != nil {
		t.Fatal(err)
	}
	a.Wait("what came", has(`"MESSAGE":"more"`))
	if has("not asked for")() {
		t.Error("an entry of low priority was sent")
	}
}
