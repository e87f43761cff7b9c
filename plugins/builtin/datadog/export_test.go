package datadog

import (
	"context"
	"net"
)

// DialWith makes an open destination connect with dial.
func DialWith(d *Destination, dial func(context.Context, string, string) (net.Conn, error)) {
	d.sink.Client.Transport.DialContext = dial
}
