//go:build !linux

package server

import "syscall"

// endWithTest does nothing: only Linux supports this.
func endWithTest(*syscall.SysProcAttr) {}
