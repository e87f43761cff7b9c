// Package access controls access to the API: it reads tokens and certificates, and listens on the addresses in the
// settings.
package access

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api"
)

// Listeners are the listeners of an API, which do not serve yet.
type Listeners struct {
	server *api.Server
	tcp    net.Listener
	socket net.Listener // nil for none
}

// Listen sets the access rules of server from the settings, and listens on their address, and on their Unix socket if
// they name one. It refuses settings without access rules for an API that others can reach.
func Listen(server *api.Server, c config.API, log *slog.Logger) (*Listeners, error) {
	if err := secure(server, c, log); err != nil {
		return nil, config.Invalid(err)
	}
	address, err := tcpAddress(log, c, server)
	if err != nil {
		return nil, config.Invalid(err)
	}
	l := &Listeners{server: server}
	if l.tcp, err = net.Listen("tcp", address); err != nil {
		return nil, &environmentError{fmt.Errorf("cannot listen on api.http.address: %w%s", err,
			inTheWay(address, err))}
	}
	if c.HTTP.Socket != "" {
		if l.socket, err = listenSocket(c.HTTP); err != nil {
			l.tcp.Close()
			return nil, err
		}
	}
	return l, nil
}

// Address returns the TCP address of the listener.
func (l *Listeners) Address() string { return l.tcp.Addr().String() }

// Serve serves the API until ctx ends, or until a listener fails. It closes the listeners.
func (l *Listeners) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.server.Serve(ctx, l.tcp) })
	if l.socket != nil {
		group.Go(func() error { return l.server.Serve(ctx, l.socket) })
	}
	return group.Wait()
}

// secure sets the access rules of server, and the host names that it accepts.
func secure(server *api.Server, c config.API, log *slog.Logger) (err error) {
	server.Hosts = hosts(c)
	followed, err := tokens(log, c.Auth)
	if err != nil {
		return err
	}
	server.Tokens = followed.get
	if server.TLS, err = encryption(log, c.TLS); err != nil {
		return err
	}
	server.Origins, err = origins(c.HTTP.CORS.AllowedOrigins)
	return err
}

// hosts returns the host names that the API accepts.
func hosts(c config.API) []string {
	all := strings.FieldsFunc(c.AllowedHosts, func(r rune) bool { return r == ',' || r == ' ' })
	if host, _, err := net.SplitHostPort(c.HTTP.Address); err == nil && host != "" {
		all = append(all, host)
	}
	return all
}

// environmentError is an error caused by the machine.
type environmentError struct{ error }

// Environment reports that the input of the user is not the cause.
func (*environmentError) Environment() bool { return true }

// Unwrap returns the cause.
func (e *environmentError) Unwrap() error { return e.error }
