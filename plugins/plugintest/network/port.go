package network

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
)

// Ports of servers are below those that the kernel gives to connections, which could take one before its server does.
const (
	firstPort = 10_000
	portCount = 22_000
)

var givenPorts sync.Map // those that FreePort returned, with the socket that reserves it

// FreePort returns a TCP port of 127.0.0.1 on which nothing listened a moment ago, another one each time, on Linux also in
// tests of other packages that run now. A server that is to come back at the same address needs one of its own choice.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.N(portCount)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		reserved, err := reserve(port)
		if err != nil {
			continue
		}
		if _, given := givenPorts.LoadOrStore(port, reserved); !given {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// reserve keeps a port from other processes that ask for a free one, until this one ends.
func reserve(port int) (io.Closer, error) {
	if runtime.GOOS != "linux" { // which has names of sockets that end with their process
		return io.NopCloser(nil), nil
	}
	return net.Listen("unix", fmt.Sprintf("@conduit-test-port-%d", port))
}
