// Package script contains the shared parts of the tests of the built binary: the programs and the commands of their
// scripts.
package script

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Root is the root of the checkout, relative to the test of a campaign.
const Root = "../../../.."

// Binaries returns a directory with the built binary and with the executable of a generator connector.
func Binaries(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, pkg := range map[string]string{"conduit": "cmd/conduit",
		"conduit-connector-generator": "agent/agenttest/campaign/bench/connector"} {
		if err := built.Binary(filepath.Join(dir, name), "github.com/conduit-agent/conduit/"+pkg); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Exits is the command "exits CODE COMMAND ARG...": exec for a command that must end with that exit code.
func Exits(ts *testscript.TestScript, _ bool, args []string) {
	var exit *exec.ExitError
	err := ts.Exec(args[1], args[2:]...)
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("ended with %v, not with %s", err, args[0])
	}
}

// Eventually is the command "eventually PATTERN COMMAND ARG...": it repeats the command until its output matches.
func Eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern, out := regexp.MustCompile("(?m)"+args[0]), ""
	var err error
	if !InTime(func() bool {
		err = ts.Exec(args[1], args[2:]...)
		out = ts.ReadFile("stdout")
		return pattern.MatchString(out)
	}) {
		ts.Fatalf("%v: ended with %v, and never printed %s:\n%s", args[1:], err, args[0], out)
	}
}

// InTime waits until the condition holds, and reports whether it did.
func InTime(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	return wait.Until(ctx, holds)
}
