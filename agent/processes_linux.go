package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pluginProcess is what a connector's process takes.
type pluginProcess struct {
	connectorID string
	resident    uint64 // bytes
	fds         int    // open file descriptors
}

// pluginProcesses returns what the processes take that the agent runs as connectors. The
// kernel knows them: they are children with the id of their connector in the environment.
func pluginProcesses() (all []pluginProcess) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that ended meanwhile
		}
		for _, pid := range strings.Fields(string(children)) {
			if p, ok := pluginProcessOf(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func pluginProcessOf(pid string) (p pluginProcess, ok bool) {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%s/environ", pid))
	if err != nil {
		return p, false
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if id, found := bytes.CutPrefix(variable, []byte("CONDUIT_CONNECTOR_ID=")); found {
			p.connectorID = string(id)
		}
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%s/statm", pid))
	fields := strings.Fields(string(statm))
	if p.connectorID == "" || err != nil || len(fields) < 2 {
		return p, false
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%s/fd", pid))
	p.resident, p.fds = pages*uint64(os.Getpagesize()), len(fds)
	return p, true
}
