package plugintest_test

import (
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestUnplug checks that the kernel of a sender gets no acknowledgements any more, while data acknowledged before
// arrives, and new connections work.
func TestUnplug(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := network.NewProxy(t, l.Addr().String())
	c := dial(t, p)
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	p.Hold(true)
	if _, err := io.WriteString(c, "before"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the proxy has it", func() bool { return p.Holds() == 1 && unacknowledged(t, c) == 0 })
	if n := p.Unplug(t); n != 1 {
		t.Errorf("%d connections are half-open, want 1", n)
	}
	p.Hold(false)
	if _, err := io.WriteString(c, "after"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := io.ReadAtLeast(other, b, len("before")); err != nil || string(b[:n]) != "before" {
		t.Errorf("%q arrived: %v", b[:n], err)
	}
	wait.For(t, "the kernel sends it again", func() bool { return retransmits(t, c) > 0 })
	if n := network.Unread(t, other); n > 0 {
		t.Errorf("%d bytes arrived", n)
	}
	if n := unacknowledged(t, c); n != len("after") {
		t.Errorf("%d bytes are not acknowledged, want those of %q", n, "after")
	}
	if _, err := io.WriteString(dial(t, p), "anew"); err != nil {
		t.Fatal(err)
	}
	again, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if n, err := io.ReadAtLeast(again, b, len("anew")); err != nil || string(b[:n]) != "anew" {
		t.Errorf("%q arrived over a new connection: %v", b[:n], err)
	}
}

// retransmits returns how often the kernel has sent the oldest unacknowledged data of a connection again.
func retransmits(t *testing.T, c net.Conn) (n uint8) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	var info *unix.TCPInfo
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); info != nil {
				n = info.Retransmits
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// unacknowledged returns how many bytes the kernel has in the queue of a connection.
func unacknowledged(t *testing.T, c net.Conn) (n int) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
