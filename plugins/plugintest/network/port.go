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

// Ports of servers are below the range from which the kernel takes the ports of outgoing connections: such a connection
// could take a port before its server does.
const (
	firstPort = 10_000
	portCount = 22_000
)

var givenPorts sync.Map // from ports that FreePort returned to the sockets that reserve them

// FreePort returns a TCP port of 127.0.0.1 that nothing listened on a moment ago. It returns no port twice, on Linux
// not even to tests of other packages that run at the same time. Use it for a server that must come back at the same
// address.
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

// reserve keeps other processes from getting the same port from FreePort until this process ends.
func reserve(port int) (io.Closer, error) {
	if runtime.GOOS != "linux" { // only Linux has names of sockets that end with their process
		return io.NopCloser(nil), nil
	}
	return net.Listen("unix", fmt.Sprintf("@conduit-test-port-%d", port))
}
