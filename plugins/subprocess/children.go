// Package subprocess starts the processes of this one that are not connectors, and bounds what they add to the log. The agent
// adopts processes that connectors leave behind and ends those children that were not started here.
package subprocess

import (
	"os/exec"
	"sync"
)

var (
	mu  sync.Mutex
	own = map[int]bool{} // guarded by mu
)

// Start starts a command that Wait is called for.
func Start(cmd *exec.Cmd) error {
	mu.Lock() // so that it is known before Others sees it
	defer mu.Unlock()
	err := cmd.Start()
	if err == nil {
		own[cmd.Process.Pid] = true
	}
	return err
}

// Wait waits for a command that Start started.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	delete(own, cmd.Process.Pid)
	return err
}

// Run starts a command and waits for it.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// Others calls do for each process in the list but those that Start started. No command is started meanwhile.
func Others(list func() []int, do func(pid int)) {
	mu.Lock()
	defer mu.Unlock()
	for _, pid := range list() {
		if !own[pid] {
			do(pid)
		}
	}
}
