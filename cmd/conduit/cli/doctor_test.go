package cli

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// conduit doctor checks all requirements that the page lists.
func TestDoctorChecksWhatThePageSaysIsNeeded(t *testing.T) {
	page, err := os.ReadFile("../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)## What it needs\n.*?\n## `).Find(page)
	var needed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(table, -1) {
		needed = append(needed, string(row[1]))
	}
	slices.Sort(needed)

	dir := t.TempDir()
	commandIn(t, dir, "init")
	var findings []Finding
	if err := json.Unmarshal(commandIn(t, dir, "doctor", "--json"), &findings); err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{}
	for _, f := range findings {
		checked[f.Check] = true
	}
	if got := slices.Sorted(maps.Keys(checked)); !slices.Equal(got, needed) {
		t.Errorf("doctor checks\n%q\nthe page has\n%q", got, needed)
	}
}

// commandIn runs conduit in a directory and returns its output.
func commandIn(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &exec.Cmd{Path: self, Args: append([]string{"conduit"}, args...), Dir: dir, Stderr: os.Stderr,
		Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0", "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0")}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("conduit %q: %v\n%s", args, err, out)
	}
	return out
}
