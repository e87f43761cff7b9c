//go:build unix

package notification

import (
	"os/exec"
	"syscall"
)

// group makes all processes that cmd starts end with it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
