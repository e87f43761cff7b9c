package cli

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
)

// conduit doctor checks all requirements that the page lists.
func TestDoctorChecksDocumentedNeeds(t *testing.T) {
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

// conduit doctor checks the file of every setting that names a secret: whether it is there, and who can read it.
func TestDoctorChecksEveryFileWithASecret(t *testing.T) {
	const own, service = "/etc/own.yaml", "/etc/conduit/conduit.yaml"
	dir := t.TempDir()
	open, private := filepath.Join(dir, "open"), filepath.Join(dir, "private")
	if err := errors.Join(os.WriteFile(open, []byte("x"), 0o644), os.WriteFile(private, []byte("x"), 0o600)); err !=
		nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		if s.Secrecy != config.SecretFile {
			continue
		}
		for _, test := range []struct {
			file, settings string
			want           Level
		}{
			{private, own, OK}, {open, own, Warning}, {filepath.Join(dir, "missing"), own, Error},
			{"bare", own, Error}, {"bare", service, Unknown}, {filepath.Join(dir, "missing"), service, Error},
		} {
			c, _, err := config.Load(config.Sources{Path: "/dev/null", Flags: map[string]string{s.Key: test.file}})
			if err != nil {
				t.Fatal(err)
			}
			c.File = test.settings
			e := &examination{Program: &Program{ServiceFile: service}, config: c}
			e.permissions()
			if len(e.findings) != 1 || e.findings[0].Level != test.want {
				t.Errorf("%s: %s: %+v, want %s", s.Key, test.file, e.findings, test.want)
			}
		}
	}
}
