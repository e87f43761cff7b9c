//go:build !linux

package api_test

import "net"

// hasRead does not know: the pieces may be read as one.
func hasRead(_, _ net.Conn) bool { return true }
