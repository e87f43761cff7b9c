// Package process handles the process of the agent: its limits of memory and CPU, its isolation from other processes,
// its service manager, and its description.
package process

import (
	"fmt"
	"os"
	"runtime"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Description is a description of this process and its machine.
type Description struct {
	Host       string // name of the machine; "" when it has none
	Unit       string // of systemd; "" for none
	Goroutines int
	Resident   int64 // resident memory in bytes; 0 if it is unknown
}

// Describe describes this process and its machine.
func Describe() Description {
	name, _ := os.Hostname() // empty when the machine has none
	return Description{Host: name, Unit: unit(), Goroutines: runtime.NumGoroutine(), Resident: resident()}
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
