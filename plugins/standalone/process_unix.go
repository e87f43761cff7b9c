//go:build unix && !linux

package standalone

import "syscall"

// processAttributes gives a plugin a process group of its own, out of reach of the
// terminal's Ctrl-C.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup does nothing: here nothing tells that a process has ended without reaping it.
func endGroup(int) bool { return false }
