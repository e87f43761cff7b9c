package binary

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A build without cgo is refused with one sentence that names the remedy.
func TestWithoutCgo(t *testing.T) {
	cmd := exec.Command("go", "build", "-o", os.DevNull, "github.com/conduit-agent/conduit/cmd/conduit")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err == nil || !strings.Contains(said, "set CGO_ENABLED=1 and install a C compiler") ||
		strings.Contains(said, "undefined") {
		t.Errorf("the build ended with %v:\n%s", err, said)
	}
}
