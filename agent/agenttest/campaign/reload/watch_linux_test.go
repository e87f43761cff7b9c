package reload_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// Unmounting and remounting the disk with the pipeline files stops nothing.
func TestDirectoryIsUnmounted(t *testing.T) {
	dir := agenttest.NewDir(t)
	mount := func() {
		t.Helper()
		err := syscall.Mount("none", dir+"/pipelines", "tmpfs", 0, "")
		if errors.Is(err, os.ErrPermission) {
			t.Fatalf("mounting is not permitted here, run it as root: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mount()
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/pipelines", syscall.MNT_DETACH) })
	d := agenttest.DeskIn(t, dir, agenttest.ShortGrace)
	d.Save("p.yaml", d.Generated("p", 1))
	d.Runs("p", 1)
	d.Must(syscall.Unmount(d.Path("pipelines"), 0))
	d.Scan() // an unmount causes no event
	d.Wait("that nothing is withdrawn", func() bool {
		return strings.Contains(d.Log(), "all pipeline files are "+
			"missing")
	})
	mount()
	d.Save("p.yaml", d.Generated("p", 1))
	d.WantStarts("p", 1)
	d.Save("p.yaml", d.Generated("p", 2))
	d.Runs("p", 2)
}

// Without an inotify instance, an agent polls the files, and logs how to fix that.
func TestNoInotifyInstancesLeft(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	save := func(version int) {
		file := []byte(agenttest.Generated(dir, "p", version, ""))
		if err := os.WriteFile(dir+"/pipelines/p.yaml", file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save(1)
	p, err := process.Try(dir, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}, process.NoEvents+"=1")
	if err != nil {
		t.Fatalf("user name spaces are not permitted here: %v", err)
	}
	status := func() string {
		text, _ := os.ReadFile(dir + "/conduit.db.status/p.yaml.json")
		return string(text)
	}
	for version := 1; version <= 2; version++ {
		save(version)
		running := fmt.Sprintf("\"runningGeneration\": %d,", version)
		p.WaitFor(t, fmt.Sprintf("version %d", version), func() bool { return strings.Contains(status(), running) })
	}
	p.Terminate(t)
	if log := p.Log.String(); !strings.Contains(log, "polling it instead") ||
		!strings.Contains(log, "sysctl fs.inotify.max_user_instances") {
		t.Errorf("it was not logged that there are no events:\n%s", log)
	}
}
