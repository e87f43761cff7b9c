package binary

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
)

// A shortage of a resource of the machine is detected and reported with the documented level and a remedy.
func TestDoctorFindsWhatIsShort(t *testing.T) {
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=200", "tmpfs",
		disk).CombinedOutput(); err != nil {
		t.Fatalf("cannot mount a small file system: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	other, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`ulimit -n 256; exec "$0" doctor --api.http.address "$1" --db.sqlite.path "$2/conduit.db"`,
		filepath.Join(script.Binaries(t), "conduit"), other.Addr().String(), disk)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("doctor ended with %v", err)
	}
	for _, line := range []string{
		`error +disk +[0-9] MiB free at `, " +→ free disk space: ",
		`warning +inodes +\d+ free at `,
		`warning +file system +.* is in memory \(tmpfs\)`, " +→ set db.sqlite.path to a disk$",
		`warning +open files +at most 256$`, " +→ raise it, for a service by LimitNOFILE=",
		`error +agent +none answers, and .*address already in use, by process \d+ `,
		" +→ set another api.http.address$",
	} {
		if !regexp.MustCompile("(?m)^" + line).Match(out) {
			t.Errorf("doctor has no line %q:\n%s", line, out)
		}
	}
}
