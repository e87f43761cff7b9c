//go:build !linux

package network

import "testing"

// Unplug skips the test: only Linux drops packets for one socket.
func (p *Proxy) Unplug(t testing.TB) int {
	t.Helper()
	t.Skip("needs Linux")
	return 0
}
