package binary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// A file for PostgreSQL runs after filling in its URL.
func TestPipelinesInitOfPostgres(t *testing.T) {
	s, dir, conduit := server.StartPostgres(t, ""), t.TempDir(), filepath.Join(script.Binaries(t), "conduit")
	run := func(args ...string) (code int, out string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), conduit, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CONDUIT_PIPELINES_PATH=.", "CONDUIT_API_ENABLED=false")
		text, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if code, out := run("pipelines", "init", "p", "--source", "postgres"); code != 0 ||
		!strings.Contains(out, "To run it, fill in url of postgres-source.\n") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	path := filepath.Join(dir, "p.yaml")
	file, err := os.ReadFile(path)
	if err == nil && bytes.Count(file, []byte(`url: ""`)) != 1 {
		t.Fatalf("it has no url to fill in:\n%s", file)
	}
	if err == nil {
		err = os.WriteFile(path,
			bytes.Replace(file, []byte(`url: ""`), fmt.Appendf(nil, `url: postgres://postgres@%s/postgres`, s.Addr), 1),
			0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, out := run("run", "--once", "--idle", "500ms"); code != 0 || !strings.Contains(out, "1 pipeline idle") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
