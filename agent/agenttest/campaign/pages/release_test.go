package pages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// TestReleaseIsVerified executes the commands of SECURITY.md on an artifact signed by .ci/release, and on a modified
// one.
func TestReleaseIsVerified(t *testing.T) {
	server.Need(t, "minisign", "minisign")
	blocks := commandBlocks(t, "cmd/conduit/docs/SECURITY.md")
	if len(blocks) != 1 {
		t.Fatalf("SECURITY.md has %d blocks of commands", len(blocks))
	}
	const pkg, sums = "conduit_1.0.0_amd64.deb", "SHA256SUMS"
	checksums := func(text string) string {
		return fmt.Sprintf("%x  %s\n%x  another.rpm\n", sha256.Sum256([]byte(text)), pkg, sha256.Sum256(nil))
	}
	for _, changed := range [][]string{{}, {pkg}, {pkg, sums}} {
		dir := t.TempDir()
		run := func(script string) ([]byte, error) {
			c := exec.Command("bash", "-e", "-c", script)
			c.Dir = dir
			return c.CombinedOutput()
		}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(pkg, "package")
		write(sums, checksums("package"))
		if out, err := run("minisign -G -W -p minisign.pub -s key && minisign -S -s key -m SHA256SUMS"); err != nil {
			t.Fatalf("cannot sign: %v\n%s", err, out)
		}
		for _, name := range changed {
			write(name, map[string]string{pkg: "changed", sums: checksums("changed")}[name])
		}
		if out, err := run(blocks[0].text); (err == nil) != (len(changed) == 0) {
			t.Errorf("with %q changed: %v\n%s", changed, err, out)
		}
	}
}
