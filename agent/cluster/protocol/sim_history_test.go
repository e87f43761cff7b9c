package protocol

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// TestClaimsAreLinearizable checks that what agents were answered when they wrote claims is what a register
// would have answered, in histories with all faults.
func TestClaimsAreLinearizable(t *testing.T) {
	history := &server.History{}
	for seed := range uint64(10) {
		simulate(t, seed, nil, history)
	}
	ok, verdict := history.Linearizable(t)
	if t.Log(verdict); !ok {
		t.Error("no order of the writes of the claims explains their answers")
	}
}

var kinds = map[Result]string{Applied: "applied", Conflict: "conflict", Unknown: "unknown"}

// record adds a write of a claim to the history. A key that expires is no register.
func (w *world) record(a *agent, c Write, called time.Duration, o Outcome) {
	if pipeline, _ := InstanceOf(pipelineOfKey(c.Key)); w.history == nil || kinds[o.Result] == "" || c.TTL != 0 || pipeline == brief {
		return
	}
	claim, _ := decode[Claim](c.Value)
	w.history.Add(server.Operation{
		Key: fmt.Sprint(w.seed, c.Key), Client: slices.Index(w.agents, a), Call: int64(called), Return: int64(w.now), Kind: kinds[o.Result],
		Expected: c.Revision, Stamp: fmt.Sprint(claim.Stamp), Revision: o.Revision,
	})
}
