package e2e_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

// The log says which store is used, and whether it is new.
func TestLogNamesTheStore(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	for i, created := range []bool{true, false} {
		a := agenttest.Start(t, dir)
		a.Wait("the store in the log", func() bool {
			return strings.Contains(a.Log(), `"msg":"agent started"`) && strings.Contains(a.Log(), `"store":"`+dir)
		})
		a.Stop()
		if got := strings.Contains(a.Log(), "created a new, empty store"); got != created {
			t.Errorf("start %d: a new store is logged: %t, want %t", i+1, got, created)
		}
	}
}
