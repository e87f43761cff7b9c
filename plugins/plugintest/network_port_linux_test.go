package plugintest_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// TestFreePortsAreReserved checks that tests of another process do not get the same port.
func TestFreePortsAreReserved(t *testing.T) {
	l, err := net.Listen("unix", fmt.Sprintf("@conduit-test-port-%d", network.FreePort(t)))
	if err == nil {
		_ = l.Close()
		t.Error("another process could reserve it, too")
	}
}
