package telemetry

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usageOf returns the resource usage of a process, false when it has ended.
func usageOf(pid int) (u usage, ok bool) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 2 {
		return u, false
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return u, false
	}
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return usage{resident: pages * uint64(os.Getpagesize()), fds: len(fds)}, true
}
