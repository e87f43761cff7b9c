//go:build unix && !linux

package standalone

import "syscall"

// processAttributes puts a plugin into its own process group, where the terminal's Ctrl-C does not reach it.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup does nothing: this system cannot report the end of a process without reaping it.
func endGroup(int) bool { return false }
