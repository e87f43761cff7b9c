package standalone

import (
	"syscall"
)

// processAttributes gives a plugin a process group of its own, out of reach of the
// terminal's Ctrl-C, and ends it when the agent ends, however that happens.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endGroup waits until the process has ended, and ends what is left of its group. The
// process is not reaped yet, so that its id cannot mean another one. It reports whether
// it could wait.
func endGroup(pid int) bool {
	const byPID = 1
	var errno syscall.Errno = syscall.EINTR
	for errno == syscall.EINTR {
		_, _, errno = syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return errno == 0
}
