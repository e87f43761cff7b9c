//go:build !linux

package server

import "syscall"

// endWithTest does nothing: other systems cannot do so.
func endWithTest(*syscall.SysProcAttr) {}
