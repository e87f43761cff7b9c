package kill

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

// Usage is the resource usage of a process.
type Usage struct {
	CPU    time.Duration
	Memory int64 // maximum in bytes, without the program's file; 0 where the system does not report it
}

// StartAgent starts an agent in dir in a separate process. stop kills it and returns its resource usage.
func StartAgent(dir string) (stop func() Usage, err error) {
	p := &process{dir: dir}
	return func() Usage {
		memory := peak(p.cmd.Process.Pid)
		p.kill()
		return Usage{p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), memory}
	}, p.start()
}

var inStatus = regexp.MustCompile(`(VmHWM|RssFile):\s+(\d+) kB`)

// peak returns the maximum memory of a process. Its memory of mapped files, which changes little once it runs, is left
// out.
func peak(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	all := map[string]int64{}
	for _, found := range inStatus.FindAllSubmatch(status, -1) {
		all[string(found[1])], _ = strconv.ParseInt(string(found[2]), 10, 64) // digits
	}
	return (all["VmHWM"] - all["RssFile"]) << 10
}
