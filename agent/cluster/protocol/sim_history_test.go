package protocol

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

var historyPath = flag.String("history", "", "file that gets the writes of claims of all histories")

// history is a file with the answers to the claim writes of all agents, one JSON operation per line. A checker can
// compare them with the answers of a linearizable register.
type history struct {
	t    *testing.T
	file *os.File
}

// newHistory returns nil if no history is requested.
func newHistory(t *testing.T) *history {
	t.Helper()
	if *historyPath == "" {
		return nil
	}
	file, err := os.Create(*historyPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return &history{t, file}
}

// operation is a write of a claim. agent/agenttest/campaign/server has the same type.
type operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Call     int64  `json:"call"`
	Return   int64  `json:"return"`
	Kind     string `json:"kind"`
	Expected uint64 `json:"expected"`
	Stamp    string `json:"stamp"`
	Revision uint64 `json:"revision"`
}

var kinds = map[Result]string{Applied: "applied", Conflict: "conflict", Unknown: "unknown"}

// record adds a write of a claim to the history. Keys that expire are left out, since they are not registers.
func (w *world) record(a *agent, c Write, called time.Duration, o Outcome) {
	if pipeline, _ := InstanceOf(pipelineOfKey(c.Key)); w.history == nil || kinds[o.Result] == "" || c.TTL != 0 ||
		pipeline == brief {
		return
	}
	claim, _ := decode[Claim](c.Value)
	err := json.NewEncoder(w.history.file).Encode(operation{
		Key: fmt.Sprint(w.seed, c.Key), Client: slices.Index(w.agents, a), Call: int64(called), Return: int64(w.now),
		Kind:     kinds[o.Result],
		Expected: c.Revision, Stamp: fmt.Sprint(claim.Stamp), Revision: o.Revision,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
