package socket

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// commonSettings are the settings of both sides.
type commonSettings struct {
	// Address: tcp://HOST:PORT, tls://HOST:PORT, udp://HOST:PORT, unix:///PATH, or unixgram:///PATH for packets over a
	// Unix socket. Without a host a listener accepts on all interfaces.
	Address string `json:"address" validate:"required"`
	// Framing of connections: lines, or frames that begin with their length in decimal digits and a space
	// (octet-counted) or in binary (length-prefixed). Each packet of udp and unixgram is a frame.
	Framing string `json:"framing" default:"lines" validate:"inclusion=lines|octet-counted|length-prefixed"`
	// End of a line: newline, carriage return and newline, or a NUL byte.
	Delimiter string `json:"delimiter" default:"newline" validate:"inclusion=newline|crlf|nul"`
	// Number of bytes of the length with length-prefixed.
	LengthBytes int `json:"length.bytes" default:"4" validate:"inclusion=1|2|4|8"`
	// Order of the bytes of the length with length-prefixed.
	LengthOrder string `json:"length.order" default:"big-endian" validate:"inclusion=big-endian|little-endian"`
	// Permissions of the Unix socket of a listener, in octal as for chmod.
	UnixMode string `json:"unix.mode" default:"0600" validate:"regex=^0?[0-7]{3}$"`

	common.TLS
}

// endpoint is an address of a socket.
type endpoint struct {
	network string // tcp, udp, unix or unixgram
	address string // HOST:PORT or a path
	secure  bool   // TLS
	listens bool
}

// packets reports whether each frame is a packet.
func (e endpoint) packets() bool { return e.network == "udp" || e.network == "unixgram" }

func (e endpoint) isUnix() bool { return strings.HasPrefix(e.network, "unix") }

// protocol returns the name of the protocol in metadata.
func (e endpoint) protocol() string {
	if e.secure {
		return "tls"
	}
	return e.network
}

// longestPath is the longest path of a Unix socket on every system, in bytes.
const longestPath = 103

// endpoint returns the endpoint in the settings. The error is an sdk.SettingError.
func (s *commonSettings) endpoint(ctx context.Context, listens bool) (endpoint, error) {
	wrong := func(message string) (endpoint, error) {
		return endpoint{}, sdk.SettingError{Setting: "address", Message: message}
	}
	scheme, rest, _ := strings.Cut(s.Address, "://")
	e := endpoint{network: scheme, address: rest, listens: listens}
	switch scheme {
	case "unix", "unixgram":
		switch {
		case !filepath.IsAbs(rest) || filepath.Clean(rest) != rest:
			return wrong("must have the absolute path of the socket, such as " + scheme + ":///run/app/log.sock")
		case len(rest) > longestPath:
			return wrong(fmt.Sprintf("has a path of %d bytes; the path of a Unix socket has at most %d", len(rest),
				longestPath))
		}
		if err := sdk.CheckPath(ctx, "address", rest); err != nil {
			return e, err
		}
	case "tcp", "tls", "udp":
		if err := common.CheckAddress("address", rest); err != nil {
			return wrong("must be " + scheme + "://HOST:PORT, with nothing else")
		}
		host, port, err := net.SplitHostPort(rest)
		if err != nil || port == "" || host == "" && !listens {
			return wrong("must have a host and a port, such as " + scheme + "://logs.example.com:5140")
		}
		if e.secure = scheme == "tls"; e.secure {
			e.network = "tcp"
		}
	default:
		return wrong("must begin with tcp://, tls://, udp://, unix:// or unixgram://")
	}
	if !e.secure && s.TLS != (common.TLS{}) {
		return wrong("must begin with tls:// for the settings tls.*")
	}
	_, err := s.TLS.Client()
	return e, err
}

// serverTLS returns the TLS configuration of a listener; nil without TLS.
func (s *commonSettings) serverTLS(e endpoint) (*tls.Config, error) {
	if !e.secure {
		return nil, nil
	}
	if s.Cert == "" {
		return nil, sdk.SettingError{Setting: "tls.cert", Message: "is required to listen at a tls:// address"}
	}
	c, err := s.Server()
	if err != nil {
		return nil, err
	}
	c.NextProtos = nil // no protocols of HTTP
	return c, nil
}

// clientTLS returns the TLS configuration of a client; nil without TLS.
func (s *commonSettings) clientTLS(e endpoint) (*tls.Config, error) {
	if !e.secure {
		return nil, nil
	}
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	c.ServerName, _, err = net.SplitHostPort(e.address)
	return c, err
}
