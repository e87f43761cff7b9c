package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/api"
)

// tcpAddress returns the address to listen on. If the API has no access control, it refuses an address that others can
// reach, and uses 127.0.0.1 if the address has no host.
func tcpAddress(log *slog.Logger, c config.API, s *api.Server) (string, error) {
	host, port, err := net.SplitHostPort(c.HTTP.Address)
	if err != nil {
		return "", fmt.Errorf("cannot listen on api.http.address %q: want host:port", c.HTTP.Address)
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	authenticated := s.Tokens() != (api.Tokens{}) || s.TLS != nil && s.TLS.ClientCAs != nil
	switch {
	case local && !authenticated:
		log.Info("every user of this machine can use the API: set api.auth.admin-token-file to ask for a token",
			"component", "api")
		return c.HTTP.Address, nil
	case local, authenticated, c.AllowUnauthenticated:
		return c.HTTP.Address, nil
	case host == "":
		address := net.JoinHostPort("127.0.0.1", port)
		log.Warn("the API listens on this machine only, because api.http.address has no host and no authentication "+
			"is configured: set api.auth.admin-token-file, or api.tls.client-ca-file, to serve them",
			"component", "api", "address",
			address)
		return address, nil
	}
	return "", fmt.Errorf("api.http.address %s can be reached by other machines, and no authentication is "+
		"configured: set "+
		"api.auth.admin-token-file, or api.tls.client-ca-file, "+
		"or listen on 127.0.0.1; api.allow-unauthenticated: true lets every client in", c.HTTP.Address)
}

// inTheWay returns a text about the process that prevents the API from listening on address, and a remedy.
func inTheWay(address string, err error) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ""
	}
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text) // it is a valid address
	who := process.PortOwner(port)
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf(", by %s; end that, or set another address: --api.http.address 127.0.0.1:%d, "+
		"CONDUIT_API_HTTP_ADDRESS, or api.http.address in conduit.yaml", who, port%65535+1)
}

// origins returns the origins in the setting. It refuses values that no browser sends as an origin.
func origins(setting string) ([]string, error) {
	all := strings.FieldsFunc(strings.Trim(setting, "[] "), func(r rune) bool {
		return strings.ContainsRune(`, "'`, r)
	})
	for _, origin := range all {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return nil, fmt.Errorf("api.http.cors.allowed-origins: %q is not an origin such as https://ui.example.com",
				origin)
		}
	}
	return all, nil
}
