package binary

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// completion writes the script for a shell to a file, and returns its path.
func completion(t *testing.T, shell, name string) string {
	t.Helper()
	conduit := filepath.Join(script.Binaries(t), "conduit")
	text, err := exec.CommandContext(t.Context(), conduit, "completion", shell).Output()
	if err != nil {
		t.Fatalf("conduit completion %s: %v", shell, err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// In fish each command has its own subcommands and flags, under every name of the command, and none of others.
func TestCompletionInFish(t *testing.T) {
	server.Need(t, "fish", "fish")
	path := completion(t, "fish", "conduit.fish")
	for line, want := range map[string]string{
		"conduit doct":                 "doctor\tCheck the agent, its files and the host, and print remedies.",
		"conduit pipelines va":         "validate\tCheck pipeline files without running them.",
		"conduit pipelines list --js":  "--json\tprint JSON",
		"conduit pipelines rm --st":    "--stop\tfirst stop running pipelines, after in-flight records are settled",
		"conduit status --che":         "--check\texit with 1 if a pipeline, a file or the agent has a problem",
		"conduit cluster status --che": "", // a flag of another status
		"conduit status va":            "", // a command of pipelines
	} {
		cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "--command",
			"source "+path+"; complete --do-complete '"+line+"'")
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %v, got %q, want %q", line, err, got, want)
		}
	}
}

// inZsh types a line in a zsh that finds the script as packages install it, and prints the content of the terminal once
// the line is completed.
const inZsh = `zmodload zsh/zpty
zpty terminal "env TERM=dumb zsh -f -i"
zpty -w terminal 'fpath=('$1' $fpath); autoload -U compinit; compinit -u -D; print rea""dy'
zpty -r terminal out '*ready*' && zpty -n -w terminal $2$'\t' && zpty -r terminal out "*$3*" && print -r -- "$out"`

// In zsh the first line of a session is completed, for which zsh loads the script.
func TestCompletionInZsh(t *testing.T) {
	server.Need(t, "zsh", "zsh")
	dir := filepath.Dir(completion(t, "zsh", "_conduit"))
	for line, want := range map[string]string{
		"conduit pipelines va":        "conduit pipelines validate",
		"conduit pipelines list --js": "conduit pipelines list --json",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "zsh", "-f", "-c", inZsh, "zsh", dir, line, want)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, got %q, want %q", line, err, out, want)
		}
	}
}
