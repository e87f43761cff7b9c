// Package sockets has what connectors for plain sockets share, which are syslog and socket: a server that receives
// messages over connections and in packets, an inbox that makes senders wait, a reader of frames, and connections whose
// bytes count as sent only when the kernel of the other side has acknowledged them.
package sockets

import (
	"errors"
	"net"
	"strings"
	"time"
)

// Received is a message as it arrived.
type Received struct {
	Remote   string    // host or path of the sender
	Protocol string    // tcp, tls, udp, unix or unixgram
	At       time.Time // when it arrived
	Message  []byte
	Cut      bool // the end of the message was cut off
	Partial  bool // the connection ended before the end of the message
}

// HostOf returns the host in an address, or the address if it has no port. It returns "" for a Unix socket without a
// name.
func HostOf(a net.Addr) string {
	const unnamed = "@"
	if u, ok := a.(*net.UnixAddr); a == nil || ok && u.Name == unnamed {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// isEnd reports whether err is a normal end of a connection.
func isEnd(err error) bool {
	return errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "EOF") ||
		strings.Contains(err.Error(), "connection reset")
}
