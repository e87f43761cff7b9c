package websocket

import (
	"context"
	"net"
)

// SetSourceNetwork makes a source connect with dial.
func SetSourceNetwork(s *Source, dial func(context.Context, string, string) (net.Conn, error)) {
	s.network = dial
}

// SetDestinationNetwork makes a destination connect with dial. It is called before Open.
func SetDestinationNetwork(d *Destination, dial func(context.Context, string, string) (net.Conn, error)) {
	d.network = dial
}
