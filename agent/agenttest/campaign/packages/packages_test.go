package packages

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/page"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// packagePipeline writes the number of each record on a line.
const packagePipeline = `version: "2.2"
pipelines:
  - id: numbers
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: 100, format.type: raw}}
      - {id: out, type: destination, plugin: file, settings: {path: numbers.txt, sdk.record.format: template,
         sdk.record.format.options: '{{printf "%s" .Position}}'}}
`

// TestPackage tests the life cycle of the packages under systemd as process 1, with two versions from one build.
func TestPackage(t *testing.T) {
	needNspawn(t)
	packages := t.TempDir()
	release(t, packages, "v0.1.0", "amd64")
	release(t, packages, "v0.2.0", "amd64")
	t.Run("deb", func(t *testing.T) { debLife(t, packages) })
	t.Run("rpm", func(t *testing.T) { rpmLife(t, packages) })
}

// debLife tests the life cycle of the .deb on a minimal Debian. As the page says, it is installed, and given a pipeline
// that is broken and corrected; upgraded while pipelines run, not downgraded, removed, installed again; backed up and
// restored; purged.
func debLife(t *testing.T, packages string) {
	root := debian(t)
	const older, newer = "/packages/conduit_0.1.0_amd64.deb", "/packages/conduit_0.2.0_amd64.deb"
	m := &container{t: t, etc: filepath.Join(root, "etc/conduit"),
		known: strings.NewReplacer("./conduit_*_amd64.deb", "--no-install-recommends "+older)}
	m.boot("--directory="+root, "--bind-ro="+packages+":/packages")
	began := time.Now()
	m.follow(installBlock)
	m.follow(ownBlock)
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("a pipeline of one's own took %v", took)
	}
	m.follow(breakBlock)
	m.shows(map[string]string{"ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0"})
	for _, path := range []string{"/usr/share/man/man1/conduit-status.1.gz",
		"/usr/share/bash-completion/completions/conduit", "/var/lib/conduit/admin-token"} {
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

	m.closeJIT()

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

	m.follow(backupBlock)
	m.must("dpkg", "--purge", "conduit")
	for _, path := range []string{"/usr/bin/conduit", "/var/lib/conduit", "/var/lib/private/conduit",
		"/etc/conduit/conduit.yaml", "/run/conduit"} {
		if out, err := m.run("ls", "-d", path); err == nil {
			t.Errorf("purged, and still there: %s", out)
		}
	}
	m.must("test", "-f", "/etc/conduit/pipelines/numbers.yaml") // written by an administrator
}

// closeJIT creates the drop-in of the page, and runs the service with it from then on.
func (m *container) closeJIT() {
	m.t.Helper()
	blocks := page.Blocks(m.t, installPage, "ini")
	if len(blocks) != 1 {
		m.t.Fatalf("the page has %d drop-ins, and one is known here", len(blocks))
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(blocks[0], "# /etc/"), "\n")
	m.write("../"+path, blocks[0])
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "restart", "conduit")
	m.shows(map[string]string{"MemoryDenyWriteExecute": "yes", "ActiveState": "active"})
	m.grows("numbers.txt")
	m.counted()
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

// Command blocks of the page, in order.
const (
	installBlock = iota
	ownBlock
	breakBlock
	backupBlock
)

// follow executes the commands of a block of the page. A command whose comment gives its output after an arrow is
// repeated until it prints that: people are slower than the agent.
func (m *container) follow(block int) {
	m.t.Helper()
	text, err := os.ReadFile(installPage)
	if err != nil {
		m.t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```sh\n")[1:]
	if len(blocks) != backupBlock+1 {
		m.t.Fatalf("the page has %d blocks of commands, and %d are known here", len(blocks), backupBlock+1)
	}
	commands, _, _ := strings.Cut(blocks[block], "```")
	for _, command := range splitCommands(m.known.Replace(commands)) {
		printed := expectation.FindStringSubmatch(command)
		if printed == nil {
			m.must("sh", "-c", command)
			continue
		}
		want := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(printed[1]), "…", ".*"))
		var out, code string
		wait.For(m.t, command, func() bool {
			out, code = m.result(command)
			return want.MatchString(out) && code == cmp.Or(printed[2], "0")
		}, func() string { return "exit code " + code + "\n" + out })
	}
}

// expectation matches the expected output of a command in its comment, and its exit code if not 0.
var expectation = regexp.MustCompile(`\s+# → (.*?)(?:, exit code (\d))?\n`)

// result returns the output of a command, and its exit code.
func (m *container) result(command string) (out, code string) {
	m.t.Helper()
	out, err := m.run("sh", "-c", command)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out, strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		m.t.Fatal(err)
	}
	return out, "0"
}

// splitCommands splits a block into commands. The lines of a here-document stay together.
func splitCommands(block string) (all []string) {
	end := ""
	for line := range strings.Lines(block) {
		if end != "" {
			all[len(all)-1] += line
			if strings.TrimSpace(line) == end {
				end = ""
			}
			continue
		}
		all = append(all, line)
		_, word, _ := strings.Cut(line, "<<'")
		end, _, _ = strings.Cut(word, "'")
	}
	return all
}

var made = flag.String("debian", "", "`directory` with what debootstrap makes, to copy instead")

// debian returns the directory of a minimal Debian with systemd.
func debian(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "debian")
	if *made != "" {
		output(t, exec.Command("cp", "-a", *made, root))
		return root
	}
	server.Need(t, "debootstrap", "debootstrap")
	output(t,
		exec.Command("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,procps", "bookworm",
			root))
	return root
}
