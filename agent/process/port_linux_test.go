package process_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/process"
)

// A port has an owner for as long as a process listens on it.
func TestPortOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if got, want := process.PortOwner(port), fmt.Sprintf("process %d (", os.Getpid()); !strings.HasPrefix(got, want) {
		t.Errorf("owner %q, want %s...)", got, want)
	}
	l.Close()
	if got := process.PortOwner(port); got != "" {
		t.Errorf("owner %q of a port without a listener", got)
	}
}
