package prove

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// withParent makes the agent end with this process.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// childrenOf returns the child processes of a process.
func childrenOf(pid int) (all []int) {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// clocks reports whether processes can have separate clocks, and why not.
func clocks() (ok bool, why string) {
	args := append(withClocks(1000), "true")
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return false, strings.TrimSpace(fmt.Sprintf("no time namespace can be made (%v): %s", err, out))
	}
	return true, ""
}

// withClocks returns a command prefix that sets the clocks ahead of those of the host by this number of seconds. It
// applies to the clocks for timers, not to the time of day.
func withClocks(seconds int64) []string {
	offset := strconv.FormatInt(seconds, 10)
	return []string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", offset, "--boottime", offset}
}
