//go:build unix && !linux

package standalone

import "syscall"

// processAttributes gives a plugin a process group of its own, out of reach of the
// terminal's Ctrl-C.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup does nothing: this system cannot report the end of a process without reaping it.
func endGroup(int) bool { return false }
