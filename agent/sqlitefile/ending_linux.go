package sqlitefile

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// isEnding reports whether a process has ended or is being ended by SIGKILL. Such a process keeps its locks until the
// kernel has taken its memory apart.
func isEnding(pid int) bool {
	if pid <= 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	// The name, in parentheses, may contain anything. The state follows, and the flags six fields later.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 7 {
		return false
	}
	const exiting = 0x4 // PF_EXITING
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	return flags&exiting != 0 || slices.Contains([]string{"Z", "X"}, string(fields[0])) || isKilled(pid)
}

// isKilled reports whether SIGKILL is pending for the process.
func isKilled(pid int) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(status) {
		name, mask, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "SigPnd" && string(name) != "ShdPnd" {
			continue
		}
		const sigkill = 1 << 8
		if pending, _ := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64); pending&sigkill != 0 {
			return true
		}
	}
	return false
}
