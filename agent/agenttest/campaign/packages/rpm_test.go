package packages

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// edited is a change of an administrator below the packaged settings.
const edited = "\n# edited by hand\n"

// rpmLife tests the life cycle of the .rpm under systemd as process 1: installed, upgraded while a pipeline runs, not
// downgraded, erased, installed again. The machine has the programs of this one, including rpm, in a writable /usr. No
// .rpm provides them, so dependencies are not checked.
func rpmLife(t *testing.T, packages string) {
	server.Need(t, "rpm", "rpm")
	changes := t.TempDir()
	must(t, unix.Mount("tmpfs", changes, "tmpfs", 0, "")) // an upper directory cannot be on an overlay
	t.Cleanup(func() { must(t, unix.Unmount(changes, unix.MNT_DETACH)) })
	must(t, unix.Mkdir(filepath.Join(changes, "usr"), 0o755))
	m := &container{t: t}
	m.boot("--volatile=yes", "--directory=/", "--overlay=/usr:"+filepath.Join(changes, "usr")+":/usr",
		"--bind-ro="+packages+":/packages")
	m.etc = fmt.Sprintf("/proc/%d/root/etc/conduit", m.leader)
	older, newer := "/packages/"+rpmFile(t, packages, "0.1.0"), "/packages/"+rpmFile(t, packages, "0.2.0")

	m.rpm("--install", "--nodeps", older)
	m.rpm("--verify", "--nodeps", "conduit")
	m.shows(map[string]string{"ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0"})
	if flags := m.rpm("--query", "--queryformat", `[%{FILEFLAGS:fflags} %{FILENAMES}\n]`,
		"conduit"); !strings.Contains(flags, "cn /etc/conduit/conduit.yaml\n") {
		t.Errorf("the settings are no configuration that is not replaced:\n%s", flags)
	}
	token := m.must("cat", "/var/lib/conduit/admin-token")
	m.append("conduit.yaml", edited)
	m.write("pipelines/numbers.yaml", packagePipeline)
	m.delivers("numbers.txt", 50)

	first := m.property("MainPID")
	m.rpm("--upgrade", "--nodeps", newer)
	if m.property("MainPID") == first {
		t.Error("after the upgrade the former agent still runs")
	}
	m.holds(token, "/etc/conduit/conduit.yaml")

	first = m.property("MainPID")
	// A downgrade with dnf implies --oldpackage.
	for flag, want := range map[string]string{"--nodeps": "which is newer than", "--oldpackage": "does not read"} {
		if out, err := m.run("rpm", rpmDatabase, "--upgrade", "--nodeps", flag, older); err == nil ||
			!strings.Contains(out, want) {
			t.Errorf("with %s the downgrade ended with %v: %s", flag, err, out)
		}
	}
	if out := m.must("conduit", "version"); !strings.Contains(out, "v0.2.0") || m.property("MainPID") != first {
		t.Errorf("the refused downgrade left %s", out)
	}

	m.rpm("--erase", "conduit")
	for _, gone := range []string{"pgrep -x conduit", "ls /usr/bin/conduit",
		"ls /usr/lib/systemd/system/conduit.service", "ls /etc/systemd/system/multi-user.target.wants/conduit.service",
		"ls /run/conduit"} {
		if out, err := m.run("sh", "-c", gone); err == nil {
			t.Errorf("erased, and %s still finds %s", gone, out)
		}
	}
	m.counted()
	m.rpm("--install", "--nodeps", newer)
	m.holds(token, "/etc/conduit/conduit.yaml.rpmsave")
}

// holds checks that version 0.2.0 continues with the pipeline and the token of version 0.1.0, and that the edited
// settings are in the given file.
func (m *container) holds(token, settings string) {
	m.t.Helper()
	if out := m.must("conduit", "version"); !strings.Contains(out, "v0.2.0") {
		m.t.Errorf("the version is %s", out)
	}
	m.shows(map[string]string{"ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0"})
	m.grows("numbers.txt")
	m.counted()
	if m.must("cat", "/var/lib/conduit/admin-token") != token {
		m.t.Error("the token is another one")
	}
	if out := m.must("cat", settings); !strings.HasSuffix(out, edited) {
		m.t.Errorf("%s is not as it was edited:\n%s", settings, out)
	}
}

// rpmDatabase is the default place of the database on systems with rpm. Debian's rpm has it in the home directory.
const rpmDatabase = "--dbpath=/var/lib/rpm"

// rpm runs a command of rpm, which must succeed.
func (m *container) rpm(args ...string) string {
	m.t.Helper()
	return m.must(append([]string{"rpm", rpmDatabase}, args...)...)
}

// rpmFile returns the file name of the package for a version.
func rpmFile(t *testing.T, packages, version string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(packages, "conduit-"+version+"-*.x86_64.rpm"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the packages of version %s are %v, %v", version, found, err)
	}
	return filepath.Base(found[0])
}
