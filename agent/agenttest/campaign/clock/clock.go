//go:build linux && (amd64 || arm64)

// Package clock sets the wall clock of another process that a test starts, at any moment, and leaves its monotonic
// clock unchanged. This simulates a host whose clock has no battery or is wrong.
package clock

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// fileVariable names the file from which the library reads the offset of the clock.
const fileVariable = "WALL_CLOCK_OF_TEST"

//go:embed testdata/clock.c
var source []byte

// Clock is the wall clock of processes. Its methods may be called concurrently.
type Clock struct {
	t       testing.TB
	library string
	file    string
	ahead   atomic.Int64
}

// New makes a clock that shows the host's time. It compiles a small library; without a C compiler the test fails.
func New(t testing.TB) *Clock {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatalf("a clock needs a C compiler (Debian: gcc): %v", err)
	}
	dir := server.Dir(t) // readable by the user of servers
	c := &Clock{t: t, library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "ahead")}
	path := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-O1", "-Wall", "-fPIC", "-shared", "-o", c.library,
		path).CombinedOutput(); err != nil {
		t.Fatalf("cannot compile the library of the clock: %v\n%s", err, out)
	}
	c.SetAhead(0)
	return c
}

// Join makes the process of cmd, which is not started yet and is linked dynamically, use this clock. Processes that it
// starts with its environment use the clock, too.
func (c *Clock) Join(cmd *exec.Cmd) {
	cmd.Env = append(cmd.Environ(), c.Env()...)
}

// Env returns environment variables with which a process uses this clock, as with Join.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, fileVariable + "=" + c.file}
}

// SetAhead sets the clock to the host's time plus an offset, which may be negative. It runs from there.
func (c *Clock) SetAhead(ahead time.Duration) {
	c.t.Helper()
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		c.t.Fatal(err)
	}
	c.ahead.Store(int64(ahead))
}

// Set sets the clock to a time. It runs from there.
func (c *Clock) Set(at time.Time) {
	c.t.Helper()
	c.SetAhead(time.Until(at.Round(0)))
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }
