package network

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Unplug makes the existing connections half-open, permanently, as Blackhole does, but also for the kernels of both
// ends: nothing that they send is acknowledged from now on, and their end does not arrive. Data acknowledged before is
// forwarded; if it was held, when Hold ends. Unplug returns the number of connections that became half-open.
func (p *Proxy) Unplug(t testing.TB) (n int) {
	t.Helper()
	p.set(func() {
		for c := range p.conns {
			if err := drop(c.(*net.TCPConn)); err != nil {
				t.Errorf("cannot make a connection half-open: %v", err)
			}
		}
		n = len(p.links)
	})
	return n
}

// drop makes the kernel drop all packets for a socket.
func drop(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // lets 0 bytes pass
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &none})
	})
	if errors.Is(err, net.ErrClosed) {
		return nil // it has just ended
	}
	return errors.Join(err, failed)
}
