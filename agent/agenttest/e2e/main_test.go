package e2e_test

import (
	"flag"
	"os"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func TestMain(m *testing.M) {
	agenttest.ServeExecutable(serveTattler("tattler"))
	if address := os.Getenv(onlookers); address != "" {
		os.Exit(watchRecords(address, os.Args[1], os.Args[2]))
	}
	wait.CollectLess()
	dir := inMemory()
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// inMemory moves temporary directories to a file system in memory if it has enough space, and returns the new
// directory. Syncing the files of hundreds of agents to a disk takes time and tests nothing while the power stays on.
// Benchmarks write to the disk, as agents do.
func inMemory() string {
	if flag.Lookup("test.bench").Value.String() != "" {
		return ""
	}
	const shared, room = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < room {
		return ""
	}
	dir, err := os.MkdirTemp(shared, "conduit-e2e-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		return ""
	}
	return dir
}
