package standalone

import (
	"syscall"
)

// processAttributes puts a plugin into its own process group, where the terminal's Ctrl-C does not reach it, and makes
// the kernel end it when the agent ends, however that happens.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endGroup waits until the process has ended, and ends the rest of the group. The process is not reaped yet, so its id
// cannot belong to another process. endGroup reports whether it could wait.
func endGroup(pid int) bool {
	const byPID = 1
	var errno syscall.Errno = syscall.EINTR
	for errno == syscall.EINTR {
		_, _, errno = syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0,
			0)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return errno == 0
}
