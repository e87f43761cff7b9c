package javascript

import (
	"os"
	"os/exec"
	"testing"
)

// No script ends the process, however deeply it is nested. The race detector must be off: it enlarges the stack frames
// on which the limits are based.
func TestNestedScripts(t *testing.T) {
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
		} else {
			t.Logf("%s: %s", name, out)
		}
	}
}
