// Package process handles the process of the agent: its limits of memory and CPU, its isolation from other processes,
// its service manager, and its description.
package process

import (
	"fmt"
	"os"
	"runtime"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Describe describes this process and its machine.
func Describe() rest.Agent {
	name, _ := os.Hostname() // empty when the machine has none
	return rest.Agent{OS: runtime.GOOS, Arch: runtime.GOARCH, Host: name, PID: os.Getpid(), Unit: unit(),
		Goroutines: runtime.NumGoroutine(), Memory: rest.Memory{Resident: resident()}}
}

// resident returns the resident memory of this process in bytes, 0 if /proc does not have it.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

var unitName = texts.Regexp(`([\w.@\\-]+\.service)\b`)

// unit returns the unit of systemd that contains this process, "" for none.
func unit() string {
	if os.Getenv("INVOCATION_ID") == "" {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitName().FindString(string(groups))
}
