package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// conduitIn runs a command with the real agent and the real plugins in a directory, and returns its exit code and what
// it prints.
func conduitIn(t *testing.T, dir string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "conduit", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AGENT=real", "PLUGINS=real", "CONDUIT_PIPELINES_PATH=.", "CONDUIT_API_ENABLED=false", "CONDUIT_CONNECTORS_EXEC_ENABLED=true")
	text, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// A file for any source, or destination, lacks no more than what is said to be filled in.
func TestPipelinesInitOfEveryConnector(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	for _, c := range builtin.All() {
		for side, has := range map[string]bool{"source": c.NewSource != nil, "destination": c.NewDestination != nil} {
			if !has {
				continue
			}
			dir := t.TempDir()
			code, out := conduitIn(t, dir, "pipelines", "init", "p", "--"+side, c.Name)
			missing := regexp.MustCompile(`[^ ]+ of `+c.Name+"-"+side).FindAllString(out, -1)
			if code != 0 {
				t.Errorf("%s %s: exit code %d: %s", side, c.Name, code, out)
			}
			code, out = conduitIn(t, dir, "pipelines", "validate")
			if (code == 0) != (len(missing) == 0) || strings.Count(out, ": error: ") != len(missing) || !strings.Contains(out, ", 0 warnings\n") {
				t.Errorf("%s %s: %v is missing, and validate says %s", side, c.Name, missing, out)
			}
		}
	}
}

// A file for PostgreSQL runs after filling in its URL.
func TestPipelinesInitOfPostgres(t *testing.T) {
	t.Parallel()
	s, dir := server.StartPostgres(t, ""), t.TempDir()
	if code, out := conduitIn(t, dir, "pipelines", "init", "p", "--source", "postgres"); code != 0 || !strings.Contains(out, "To have it run, fill in url of postgres-source.\n") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	path := filepath.Join(dir, "p.yaml")
	file, err := os.ReadFile(path)
	if err == nil && bytes.Count(file, []byte(`url: ""`)) != 1 {
		t.Fatalf("it has no url to fill in:\n%s", file)
	}
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(file, []byte(`url: ""`), fmt.Appendf(nil, `url: postgres://postgres@%s/postgres`, s.Addr), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, out := conduitIn(t, dir, "run", "--once", "--idle", "500ms"); code != 0 || !strings.Contains(out, "1 pipeline at rest") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
