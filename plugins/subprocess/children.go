// Package subprocess starts the processes of the agent that are not connectors, and limits their log output. The agent
// adopts processes that connectors leave behind, and kills children that this package did not start.
package subprocess

import (
	"os/exec"
	"sync"
)

var (
	mu  sync.Mutex
	own = map[int]bool{} // guarded by mu
)

// Start starts a command. Wait must follow.
func Start(cmd *exec.Cmd) error {
	mu.Lock() // so that it is registered before Others sees it
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

// Others calls do for each process in the list that Start did not start. No command starts in the meantime.
func Others(list func() []int, do func(pid int)) {
	mu.Lock()
	defer mu.Unlock()
	for _, pid := range list() {
		if !own[pid] {
			do(pid)
		}
	}
}
