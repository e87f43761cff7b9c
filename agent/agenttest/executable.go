package agenttest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// ExecutableVariable is an environment variable that, when set, makes the test binary the connector with that name.
const ExecutableVariable = "CONDUIT_TEST_PLUGIN"

// ReleaseVariable is an environment variable that, when set, gives that connector another version if it is built in.
const ReleaseVariable = "CONDUIT_TEST_PLUGIN_VERSION"

// ServeExecutable runs a connector if an agent started the test binary through a file that Install wrote, and returns
// otherwise. A TestMain calls it first. The connectors are the built-in ones with the prefix x, those with the prefix
// gathering-, which write batches of 10,000 records by default, then journal, and the given ones.
func ServeExecutable(more ...sdk.Connector) {
	name := os.Getenv(ExecutableVariable)
	if name == "" {
		return
	}
	for _, c := range builtin.All() {
		switch name {
		case "x" + c.Name:
		case "gathering-" + c.Name:
			c.DestinationDefaults = map[string]string{"sdk.batch.size": "10000"}
		default:
			continue
		}
		c.Name, c.Version = name, cmp.Or(os.Getenv(ReleaseVariable), c.Version)
		wire.Serve(c)
	}
	more = append(more,
		sdk.Connector{Name: "journal", Version: "v1.0.0", NewSource: func() sdk.Source { return &journal{} }})
	for _, c := range more {
		if c.Name == name {
			wire.Serve(c)
		}
	}
	os.Exit(0)
}

// InstallExecutables writes the executables of these names to the connectors directory of an agent.
func InstallExecutables(t *testing.T, dir string, names ...string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "connectors"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path, tmp := filepath.Join(dir, "connectors", name), filepath.Join(dir, name+".tmp")
		script := fmt.Sprintf("#!/bin/sh\nGORACE=atexit_sleep_ms=0 JOURNAL=%s/journal %s=%s exec %s\n", dir,
			ExecutableVariable, name,
			exe)
		old := time.Now().Add(-time.Hour)
		for _, err := range []error{os.WriteFile(tmp, []byte(script), 0o755), os.Chtimes(tmp, old, old),
			os.Rename(tmp, path)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Moving is a pipeline that moves generated records into a file with these plugins.
func Moving(dir, id, source, destination string, rate int) string {
	s := strings.Replace(Generated(dir, id, rate, ""), "builtin:generator", source, 1)
	return strings.Replace(s, "builtin:file", destination, 1)
}

// Children returns the running child processes of process pid.
func Children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil && Alive(child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// Alive reports whether a process exists and is no zombie.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}
