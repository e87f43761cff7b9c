//go:build !linux && !darwin

package sockets

import "syscall"

// queued returns 0: acknowledgements of the peer are unknown, so bytes accepted by the kernel count as written.
func queued(syscall.RawConn) (int, error) { return 0, nil }

// hungUp returns false: the reader of the connection notices its end.
func hungUp(syscall.RawConn) bool { return false }
