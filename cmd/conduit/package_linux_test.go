package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// packagePipeline writes the number of each record on a line.
const packagePipeline = `version: "2.2"
pipelines:
  - id: numbers
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: 100, format.type: raw}}
      - {id: out, type: destination, plugin: file, settings: {path: numbers.txt, sdk.record.format: template, sdk.record.format.options: '{{printf "%s" .Position}}'}}
`

// TestPackage takes the package through its life on a Debian that has nothing else, with systemd
// as process 1: installed as the page says, upgraded while a pipeline runs, not downgraded,
// removed, installed again, purged.
func TestPackage(t *testing.T) {
	if os.Getenv("CI") == "" && os.Getenv("CONDUIT_PACKAGES") == "" {
		server.Missing(t, "building packages takes minutes; CONDUIT_PACKAGES=1 has it done")
	}
	needNspawn(t)
	debs := t.TempDir()
	release(t, debs, "v0.1.0", "amd64")
	release(t, debs, "v0.2.0", "amd64")
	root := debian(t)
	m := &container{t: t, etc: filepath.Join(root, "etc/conduit")}
	m.boot("--directory="+root, "--bind-ro="+debs+":/debs")
	const older, newer = "/debs/conduit_0.1.0_amd64.deb", "/debs/conduit_0.2.0_amd64.deb"

	m.follow("systemd/README.md", strings.NewReplacer("./conduit_*_amd64.deb", "--no-install-recommends "+older))
	m.shows(map[string]string{"ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0"})
	for _, path := range []string{"/usr/share/man/man1/conduit-status.1.gz", "/usr/share/bash-completion/completions/conduit", "/var/lib/conduit/admin-token"} {
		m.must("test", "-s", path)
	}

	m.write("pipelines/numbers.yaml", packagePipeline)
	m.delivers("numbers.txt", 50)
	m.must("dpkg", "-i", newer)
	m.grows("numbers.txt")
	if out := m.must("conduit", "version"); !strings.Contains(out, "v0.2.0") {
		t.Errorf("after the upgrade the version is %s", out)
	}
	m.counted()

	first := m.property("MainPID")
	if out, err := m.run("dpkg", "-i", older); err == nil || !strings.Contains(out, "does not read") {
		t.Errorf("the downgrade ended with %v: %s", err, out)
	}
	if out := m.must("conduit", "version"); !strings.Contains(out, "v0.2.0") || m.property("MainPID") != first {
		t.Errorf("the refused downgrade left %s", out)
	}

	m.must("dpkg", "--remove", "conduit")
	if out, err := m.run("pgrep", "-x", "conduit"); err == nil {
		t.Errorf("removed, and still there: %s", out)
	}
	m.must("dpkg", "-i", newer)
	m.grows("numbers.txt")
	m.counted()

	m.must("dpkg", "--purge", "conduit")
	for _, path := range []string{"/usr/bin/conduit", "/var/lib/conduit", "/var/lib/private/conduit", "/etc/conduit/conduit.yaml", "/run/conduit"} {
		if out, err := m.run("ls", "-d", path); err == nil {
			t.Errorf("purged, and still there: %s", out)
		}
	}
	m.must("test", "-f", "/etc/conduit/pipelines/numbers.yaml") // a person's own
}

// counted checks that every record was written once, in order.
func (m *container) counted() {
	m.t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(m.read("numbers.txt")), "\n") {
		if line != strconv.Itoa(i+1) {
			m.t.Fatalf("record %d is %q", i+1, line)
		}
	}
}

// follow executes the first commands of a page, each of which prints what its comment says
// behind an arrow.
func (m *container) follow(page string, known *strings.Replacer) {
	m.t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		m.t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```sh\n")
	block, _, ends := strings.Cut(block, "```")
	if !found || !ends {
		m.t.Fatalf("%s has no commands", page)
	}
	for line := range strings.Lines(known.Replace(block)) {
		_, want, _ := strings.Cut(strings.TrimSpace(line), "# → ")
		if out := m.must("sh", "-c", line); !strings.Contains(out, want) {
			m.t.Errorf("%sprints %s", line, out)
		}
	}
}

// release builds what a release of a version has for a target.
func release(t *testing.T, dir, version, target string) {
	t.Helper()
	cmd := exec.Command("../../.ci/release")
	cmd.Env = append(os.Environ(), "OUT="+dir, "TARGETS="+target, "VERSION="+version, "COMMIT=test", "SOURCE_DATE_EPOCH=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the release: %v\n%s", err, out)
	}
}

// debian returns the directory of a Debian with systemd and little else.
func debian(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "debian")
	if made := os.Getenv("CONDUIT_DEBIAN"); made != "" { // by debootstrap, as below
		if out, err := exec.Command("cp", "-a", made, root).CombinedOutput(); err != nil {
			t.Fatalf("cannot copy %s: %v\n%s", made, err, out)
		}
		return root
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		server.Missing(t, "debootstrap is not installed")
	}
	out, err := exec.Command("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,procps", "bookworm", root).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot make a Debian: %v\n%s", err, out)
	}
	return root
}
