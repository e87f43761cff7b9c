package network

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Unplug makes the connections that exist half-open, for ever, as Blackhole does, but for the kernels of both ends, too: nothing
// that they send is acknowledged from now on, nor does their end arrive. What had been acknowledged before is passed on, if
// it was held once Hold ends. It returns how many connections became half-open.
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

// drop has the kernel drop all packets for a socket.
func drop(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // lets 0 bytes pass
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none})
	})
	if errors.Is(err, net.ErrClosed) {
		return nil // by its end, a moment ago
	}
	return errors.Join(err, failed)
}
