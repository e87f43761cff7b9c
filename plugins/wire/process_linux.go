package wire

import "syscall"

// processAttributes gives a plugin a process group of its own, out of reach of the
// terminal's Ctrl-C, and ends it when the agent ends, however that happens.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
