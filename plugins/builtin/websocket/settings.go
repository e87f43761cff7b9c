package websocket

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	modeConnect = "connect"
	modeListen  = "listen"
)

// endpointSettings are the settings of the connections, on both sides.
type endpointSettings struct {
	// connect: open a connection to the server at url. listen: be a server at address.
	Mode string `json:"mode" default:"connect" validate:"inclusion=connect|listen"`
	// URL of the server, ws://HOST or wss://HOST for TLS. With mode connect.
	URL string `json:"url" literal:"true"`
	// Headers of the request that opens a connection, by name. With mode connect.
	Headers map[string]string `json:"headers" literal:"true"`
	// Sub-protocols to offer or to accept, the preferred one first.
	Subprotocols []string `json:"subprotocols" literal:"true"`
	// Time after which a ping is sent, again and again.
	PingInterval time.Duration `json:"ping.interval" default:"30s" validate:"gt=0"`
	// Maximum time that the answer to a ping may take. A connection is dead when nothing was received for ping.interval
	// and this time.
	PingTimeout time.Duration `json:"ping.timeout" default:"10s" validate:"gt=0"`
	// Timeout of opening a connection, and of sending or receiving a message.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`

	// Host and port to listen on. With mode listen.
	Address string `json:"address" default:"127.0.0.1:8092"`
	// Path at which clients connect; with a trailing / it includes all paths below. With mode listen.
	Path string `json:"path" default:"/" validate:"regex=^/[^\\s{}]*$"`
	// Origins of the web pages that may connect, such as https://app.example.com, or * for all. Browsers send the
	// origin, and pages of other origins are refused. With mode listen.
	Origins []string `json:"origins" literal:"true"`
	// Maximum number of connections. Further ones are closed. All sources and destinations together hold at most half of
	// the file descriptors of the agent. With mode listen.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Whether other hosts may connect without credentials. With mode listen.
	AllowAnonymous bool `json:"auth.allowAnonymous" default:"false"`

	httpclient.Auth
	common.TLS
}

func (s *endpointSettings) listens() bool { return s.Mode == modeListen }

func (s *endpointSettings) check() error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	if s.Token != "" && s.Username != "" {
		return wrong("auth.token", "cannot be used with auth.username: remove one of them")
	}
	if slices.ContainsFunc(s.Subprotocols, func(p string) bool { return strings.ContainsAny(p, " \t\r\n\"/()<>@;:") }) {
		return wrong("subprotocols", "must be names without spaces and separators, such as graphql-transport-ws")
	}
	if s.listens() {
		return s.checkListen(wrong)
	}
	if s.URL == "" {
		return wrong("url", "is required with mode connect; to accept clients, set mode to listen")
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" ||
		strings.ContainsAny(s.URL, " \t\r\n"):
		return wrong("url", "must be ws://HOST, or wss://HOST for TLS, with port and path if needed")
	case u.User != nil:
		return wrong("url", "must not contain a user: set auth.username and auth.password, or auth.token")
	case u.Fragment != "":
		return wrong("url", "must not contain a fragment: remove # and what follows")
	}
	if err := s.CheckHeaders(s.Headers); err != nil {
		return err
	}
	_, err = s.Client()
	return err
}

func (s *endpointSettings) checkListen(wrong func(setting, message string) error) error {
	if s.URL != "" {
		return wrong("url", "needs mode connect; a server has address and path")
	}
	if len(s.Headers) > 0 {
		return wrong("headers.*", "needs mode connect: clients send the request that opens a connection")
	}
	if err := common.CheckAddress("address", s.Address); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || port == "" {
		return wrong("address", "must be a host and a port, such as 127.0.0.1:8092")
	}
	if s.None() && s.CA == "" && !s.AllowAnonymous && !common.IsLoopback(host) {
		return wrong("address", "can be reached from other machines: set auth.token, auth.password or tls.ca, or "+
			"auth.allowAnonymous to true")
	}
	for _, origin := range s.Origins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return wrong("origins", "must be a scheme and a host, such as https://app.example.com, or *")
		}
	}
	_, err = s.Server()
	return err
}
