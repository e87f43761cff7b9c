package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// TestUnitFile verifies the packaged unit with systemd, and checks its exposure level: the threshold is ten times the
// level.
func TestUnitFile(t *testing.T) {
	server.Need(t, "systemd-analyze", "systemd")
	text, err := os.ReadFile(filepath.Join(systemd, "conduit.service"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "conduit.service")
	conduit := filepath.Join(script.Binaries(t), "conduit")
	put(t, path, []byte(strings.ReplaceAll(string(text), "/usr/bin/conduit", conduit)), 0o644)
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil ||
		len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	security := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=12", path)
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
