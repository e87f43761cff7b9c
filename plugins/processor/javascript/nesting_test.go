//go:build !minimal && !race

package javascript_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
)

// No script ends the process, however it is nested. The race detector enlarges stack frames, which the
// bounds are made for, so it is not on.
func TestNestedScripts(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range nested {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), nestedVariable+"="+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %.300s", name, err, out)
		}
	}
}
