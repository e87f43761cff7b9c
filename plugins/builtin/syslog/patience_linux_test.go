package syslog_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestServerTakesNothing has the kernel of the server take nothing of what the kernel of the sender has: the connection is given up.
func TestServerTakesNothing(t *testing.T) {
	t.Parallel()
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	l, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	d := destination(t, l.Addr().String(), "timeout", "500ms", "retry.timeout", "1m")
	write := func(text string) {
		if n, err := d.Write(t.Context(), some(text)); n != 1 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	write(strings.Repeat("x", 100<<10)) // more than the server has room for, and less than the sender
	sent := 0
	wait.For(t, "another connection", func() bool {
		sent++
		write(fmt.Sprintf("number %d", sent))
		return len(accepted) == 2
	})
	_ = l.Close()
	for range 2 {
		_ = (<-accepted).Close()
	}
}
