package packages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestUnit runs the built agent under systemd as process 1, with the packaged unit and settings, in a container that
// shares only the programs of this machine.
func TestUnit(t *testing.T) {
	m := bootInstalled(t)
	m.write("in/lines", numbered(1, 1000))
	m.must("systemctl", "start", "conduit.service") // returns when the agent reports that it is ready
	m.shows(map[string]string{"Type": "notify", "ActiveState": "active", "SubState": "running", "NRestarts": "0"})
	wait.For(t, "the state in systemctl status", func() bool { return m.property("StatusText") == "3 running" })

	m.delivers("lines.txt", 1000)
	m.grows("numbers.txt")
	m.checkAccess()
	m.checkPolicy()
	m.doctorSays("ok +unit +active: 3 running", `ok +sandbox +exposure 1\.[0-5] of 10`,
		"ok +agent +version .* answers at ", "ok +pipelines +none of 3 pipelines fails",
		`ok +store +/var/lib/conduit/conduit\.db: \d+ bytes, intact`)

	first := m.property("MainPID")
	m.must("systemctl", "restart", "conduit.service")
	if m.property("MainPID") == first {
		t.Error("the restart started no other agent")
	}
	m.append("in/lines", numbered(1001, 1500))
	m.delivers("lines.txt", 1500)
	if got := m.read("lines.txt"); got != numbered(1, 1500) {
		t.Errorf("after the restart there are %d lines, not each of the 1,500 once", strings.Count(got, "\n"))
	}
	m.checkJournal()

	// The unit's sandbox still lets connectors start when they are confined further.
	m.must("mkdir", "/etc/systemd/system/conduit.service.d")
	m.must("sh", "-c", `printf '[Service]\nEnvironment=CONDUIT_CONNECTORS_SANDBOX=strict\n' `+
		`>/etc/systemd/system/conduit.service.d/strict.conf`)
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "restart", "conduit.service")
	m.grows("numbers.txt")

	m.must("systemctl", "stop", "conduit.service")
	m.shows(map[string]string{"ActiveState": "inactive", "SubState": "dead", "Result": "success", "ExecMainStatus": "0",
		"NRestarts": "0"})
	m.doctorSays("error +unit +the service is inactive", "ok +agent +no agent runs; 127.0.0.1:8080 is free")
	if out, err := m.run("pgrep", "-l", "conduit"); err == nil {
		t.Errorf("still there after the stop: %s", out)
	}
	if out, err := m.run("ls", "/run/conduit"); err == nil {
		t.Errorf("/run/conduit is still there: %s", out)
	}
}

// doctorSays checks that conduit doctor, called by root in any directory, prints lines with these beginnings, and exits
// with the code for their levels.
func (m *container) doctorSays(lines ...string) {
	m.t.Helper()
	out, err := m.run("conduit", "doctor")
	for _, line := range lines {
		if !regexp.MustCompile("(?m)^" + line).MatchString(out) {
			m.t.Errorf("doctor has no line %q:\n%s", line, out)
		}
	}
	wanted := strings.Count(strings.Join(lines, "\n"), "error ")
	if failed := len(regexp.MustCompile("(?m)^error ").FindAllString(out, -1)); failed != wanted ||
		failed > 0 != (err != nil) {
		m.t.Errorf("doctor has %d errors, want %d, and ended with %v:\n%s", failed, wanted, err, out)
	}
}

// checkJournal checks that lines about a pipeline are found by its id, with their priority.
func (m *container) checkJournal() {
	m.t.Helper()
	wait.For(m.t, "the lines of one pipeline in the journal", func() bool {
		out, err := m.run("journalctl", "--no-pager", "--unit=conduit", "--output=verbose", "PIPELINE_ID=lines",
			"COMPONENT=reconcile", "PRIORITY=6")
		return err == nil && strings.Contains(out, "MESSAGE=INF pipeline runs")
	})
}

// checkAccess checks that the port requires the token that the unit created, and that root's commands need none.
func (m *container) checkAccess() {
	m.t.Helper()
	const port = "--api.address=http://127.0.0.1:8080"
	if mode := m.must("stat", "--dereference", "--format=%a",
		"/var/lib/conduit/admin-token"); strings.TrimSpace(mode) != "600" {
		m.t.Errorf("the token's file has the mode %s", mode)
	}
	if out := m.must("conduit", "status", "--config.path=/etc/conduit/conduit.yaml"); strings.Count(out,
		"running") != 3 {
		m.t.Errorf("through the socket:\n%s", out)
	}
	if out, err := m.run("conduit", "status", port); err == nil || !strings.Contains(out, "token") {
		m.t.Errorf("without a token the port says: %s, %v", out, err)
	}
	token := strings.TrimSpace(m.must("cat", "/var/lib/conduit/admin-token"))
	if out := m.must("env", "CONDUIT_API_TOKEN="+token, "conduit", "status", port); strings.Count(out, "running") != 3 {
		m.t.Errorf("with the token:\n%s", out)
	}
}

// checkPolicy checks that the unit confines the agent and the executable that it started.
func (m *container) checkPolicy() {
	m.t.Helper()
	pids := strings.Fields(m.must("pgrep", "conduit"))
	if len(pids) < 2 {
		m.t.Fatalf("there are processes %v, of agent and connector", pids)
	}
	for _, pid := range pids {
		status := m.must("cat", "/proc/"+pid+"/status")
		for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n",
			"CapBnd:\t0000000000000000\n"} {
			if !strings.Contains(status, want) {
				m.t.Errorf("process %s has no %q", pid, want)
			}
		}
		if strings.Contains(status, "\nUid:\t0\t") {
			m.t.Errorf("process %s is root's", pid)
		}
	}
}

// numbered returns lines with numbers.
func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, "line", i)
	}
	return b.String()
}

// unitPipelines are the pipelines under systemd: a source in a separate process, a source with a position, and a
// script.
const unitPipelines = `version: "2.2"
pipelines:
  - id: numbers
    connectors:
      - {id: in, type: source, plugin: standalone:generator, settings: {rate: 200, format.type: raw}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: numbers.txt}}
  - id: lines
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: /etc/conduit/in/lines}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: lines.txt, sdk.record.format: template,
         sdk.record.format.options: '{{printf "%s" .Payload.After}}'}}
  - id: script
    processors:
      - {id: js, plugin: custom.javascript, settings: {script: 'function process(r) { return r }'}}
    connectors:
      - {id: in, type: source, plugin: builtin:generator, settings: {rate: 10, format.type: raw}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: script.txt}}
`

// container is a machine with systemd as its process 1.
type container struct {
	t      *testing.T
	etc    string            // path of /etc/conduit outside
	leader int               // pid, on this machine, of process 1
	known  *strings.Replacer // replaces words of the page
}

// bootInstalled boots a machine with the agent installed according to the page of the unit.
func bootInstalled(t *testing.T) *container {
	t.Helper()
	needNspawn(t)
	bin, root := script.Binaries(t), t.TempDir()
	usr, m := filepath.Join(root, "usr"), &container{t: t, etc: filepath.Join(root, "etc")}
	for from, to := range map[string]string{
		filepath.Join(bin, "conduit"):                     usr + "/bin/conduit",
		filepath.Join(bin, "conduit-connector-generator"): usr + "/lib/conduit/connectors/conduit-connector-generator",
		filepath.Join(systemd, "conduit.service"):         usr + "/lib/systemd/system/conduit.service",
		filepath.Join(systemd, "conduit.yaml"):            m.etc + "/conduit.yaml",
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, to, content, 0o755)
	}
	m.write("pipelines/all.yaml", unitPipelines)
	// The administrator lets pipelines read one more directory.
	settings, err := os.ReadFile(m.etc + "/conduit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.write("conduit.yaml", strings.Replace(string(settings), "allowed-paths: ", "allowed-paths: /etc/conduit/in,", 1))
	m.start(usr)
	return m
}

// needNspawn fails the test where no such machine can be booted.
func needNspawn(t *testing.T) {
	t.Helper()
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err != nil || os.Geteuid() != 0 ||
		data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		t.Fatal("only root with CAP_SYS_ADMIN can boot systemd in a container")
	}
	for _, tool := range []string{"systemd-nspawn", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed (Debian: systemd-container, util-linux)", tool)
		}
	}
	if link, err := os.Readlink("/lib"); err != nil || link != "usr/lib" {
		t.Fatal("the programs of this machine are not all below /usr")
	}
}

// start boots the machine, with the content of usr as an overlay over this machine's /usr.
func (m *container) start(usr string) {
	m.boot("--volatile=yes", "--directory=/", "--overlay-ro=/usr:"+usr+":/usr", "--bind="+m.etc+":/etc/conduit")
}

// boot boots a machine from the arguments of systemd-nspawn.
func (m *container) boot(from ...string) {
	args := append(from, "--quiet", "--register=no", "--private-network",
		"--machine=conduit-"+strconv.Itoa(os.Getpid()), "--console=pipe", "--boot",
		// systemd 252 denies them in containers
		"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
		"systemd.unit=basic.target", "systemd.firstboot=off")
	if _, err := os.Stat("/run/systemd/system"); err != nil { // no systemd to create a scope
		args = slices.Insert(args, 0, "--keep-unit")
	}
	for _, unit := range []string{"networkd-wait-online.service", "networkd.service", "networkd.socket",
		"resolved.service", "timesyncd.service", "firstboot.service"} {
		args = append(args, "systemd.mask=systemd-"+unit)
	}
	var console bytes.Buffer
	cmd := exec.Command("systemd-nspawn", args...)
	cmd.Stdout, cmd.Stderr = &console, &console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.t.Cleanup(func() {
		if m.t.Failed() && m.leader != 0 {
			out, _ := m.run("journalctl", "--no-pager", "--lines=40", "--unit=conduit")
			m.t.Log(out)
		}
		_ = cmd.Process.Kill() // the kernel ends all processes of the container with its process 1
		if m.leader != 0 {
			_ = syscall.Kill(m.leader, syscall.SIGKILL)
		}
		<-ended
		if m.t.Failed() {
			m.t.Logf("console:\n%s", &console)
		}
	})
	wait.For(m.t, "systemd has booted", func() bool {
		select {
		case <-ended:
			m.t.Fatalf("systemd-nspawn ended")
		default:
		}
		if m.leader = processOne(cmd.Process.Pid); m.leader == 0 {
			return false
		}
		_, err := m.run("systemctl", "is-active", "basic.target")
		return err == nil
	})
}

// processOne returns the child of systemd-nspawn that is process 1 of the container; 0: it does not exist yet.
func processOne(nspawn int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", nspawn))
	for child := range strings.FieldsSeq(string(children)) {
		status, _ := os.ReadFile("/proc/" + child + "/status")
		if pid, err := strconv.Atoi(child); err == nil && strings.HasPrefix(string(status), "Name:\tsystemd\n") {
			return pid
		}
	}
	return 0
}

// run runs a command in the machine as root, and returns its output.
func (m *container) run(command ...string) (string, error) {
	args := append([]string{"--target", strconv.Itoa(m.leader), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--cgroup", "--", "env", "-i",
		"PATH=/usr/sbin:/usr/bin"}, command...)
	out, err := exec.Command("nsenter", args...).CombinedOutput()
	return string(out), err
}

// must runs a command, which must succeed.
func (m *container) must(command ...string) string {
	m.t.Helper()
	out, err := m.run(command...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return out
}

// property returns a property of the service from systemd.
func (m *container) property(name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.must("systemctl", "show", "--value", "--property="+name, "conduit.service"))
}

func (m *container) shows(want map[string]string) {
	m.t.Helper()
	for name, value := range want {
		if got := m.property(name); got != value {
			m.t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// write writes a file below /etc/conduit.
func (m *container) write(name, content string) {
	m.t.Helper()
	put(m.t, filepath.Join(m.etc, name), []byte(content), 0o644)
}

// append appends to a file of /etc/conduit. Rewriting a file makes it shorter for a moment, and then the agent reads it
// from the beginning.
func (m *container) append(name, content string) {
	m.t.Helper()
	f, err := os.OpenFile(filepath.Join(m.etc, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// read returns a file of the agent's state directory, or nothing if it is missing.
func (m *container) read(name string) string {
	m.t.Helper()
	out, err := m.run("cat", "/var/lib/conduit/"+name)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	} else if err != nil {
		return ""
	}
	return out
}

// delivers waits until the file has the given number of lines.
func (m *container) delivers(name string, n int) {
	m.t.Helper()
	wait.For(m.t, fmt.Sprintf("%s has %d lines", name, n), func() bool {
		return strings.Count(m.read(name), "\n") >= n
	})
}

// grows waits until the file grows.
func (m *container) grows(name string) {
	m.t.Helper()
	before := len(m.read(name))
	wait.For(m.t, name+" grows", func() bool { return len(m.read(name)) > before })
}

// put writes a file that everyone may read, in directories that everyone may enter.
func put(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, mode)); err != nil {
		t.Fatal(err)
	}
}
