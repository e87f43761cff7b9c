package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/host"
	"github.com/conduit-agent/conduit/api"
)

// tcpAddress returns the address to listen on. One that others can reach is refused when
// nothing keeps them out, and one without a host means this machine only then.
func tcpAddress(log *slog.Logger, c config.API, s *api.Server) (string, error) {
	host, port, err := net.SplitHostPort(c.HTTP.Address)
	if err != nil {
		return "", fmt.Errorf("cannot listen on api.http.address %q: want host:port", c.HTTP.Address)
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	authenticated := s.AdminToken != "" || s.ReadToken != "" || s.TLS != nil && s.TLS.ClientCAs != nil
	switch {
	case local && !authenticated:
		log.Info("every user of this machine can use the API: set api.auth.admin-token-file to ask for a token", "component", "api")
		return c.HTTP.Address, nil
	case local, authenticated, c.AllowUnauthenticated:
		return c.HTTP.Address, nil
	case host == "":
		address := net.JoinHostPort("127.0.0.1", port)
		log.Warn("the API listens on this machine only, as api.http.address has no host and nothing keeps others out: "+
			"set api.auth.admin-token-file, or api.tls.client-ca-file, to serve them", "component", "api", "address", address)
		return address, nil
	}
	return "", fmt.Errorf("api.http.address %s can be reached by others and nothing keeps them out: set api.auth.admin-token-file, or api.tls.client-ca-file, "+
		"or listen on 127.0.0.1; api.allow-unauthenticated: true lets every client in", c.HTTP.Address)
}

// inTheWay says who keeps the API from listening on address, and what to do.
func inTheWay(address string, err error) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return ""
	}
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text) // it could be listened on
	who := host.PortOwner(port)
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf(", by %s; end that, or set another address: --api.http.address 127.0.0.1:%d, CONDUIT_API_HTTP_ADDRESS, or api.http.address in conduit.yaml", who, port%65535+1)
}

// origins returns the origins in the setting, and refuses what no browser sends as one.
func origins(setting string) ([]string, error) {
	all := strings.FieldsFunc(strings.Trim(setting, "[] "), func(r rune) bool { return strings.ContainsRune(`, "'`, r) })
	for _, origin := range all {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return nil, fmt.Errorf("api.http.cors.allowed-origins: %q is not an origin such as https://ui.example.com", origin)
		}
	}
	return all, nil
}

// maxSocketPath is the longest path that a socket can have on every system.
const maxSocketPath = 90

// listenSocket listens on the Unix socket of the settings. No client can open it before it has
// its mode and its group: it gets its name last.
func listenSocket(c config.HTTP) (net.Listener, error) {
	mode, err := strconv.ParseUint(c.SocketMode, 8, 32)
	switch {
	case err != nil || mode > 0o777:
		return nil, &settingError{fmt.Errorf("api.http.socket-mode %q is no mode such as 0660", c.SocketMode)}
	case mode&0o007 != 0:
		return nil, &settingError{fmt.Errorf("api.http.socket-mode %s lets every user of this machine do everything: leave the last digit 0", c.SocketMode)}
	case len(c.Socket) > maxSocketPath:
		return nil, &settingError{fmt.Errorf("api.http.socket is longer than %d bytes", maxSocketPath)}
	}
	group := -1
	if c.SocketGroup != "" {
		if group, err = groupID(c.SocketGroup); err != nil {
			return nil, &settingError{fmt.Errorf("api.http.socket-group: %w", err)}
		}
	}
	if err := removeStale(c.Socket); err != nil {
		return nil, &environmentError{err}
	}
	l, err := newSocket(c.Socket, os.FileMode(mode), group)
	if err != nil {
		return nil, &environmentError{fmt.Errorf("cannot listen on api.http.socket: %w", err)}
	}
	return l, nil
}

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// removeStale removes the socket of an agent that is no more.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen on api.http.socket: %w", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("cannot listen on api.http.socket: %s is there and is no socket", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	if c, err := dialer.DialContext(context.Background(), "unix", path); err == nil {
		c.Close()
		return fmt.Errorf("cannot listen on api.http.socket: another process serves %s", path)
	}
	return os.Remove(path)
}

// newSocket makes the socket in a directory that no other user can enter, and moves it to path.
func newSocket(path string, mode os.FileMode, group int) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".api-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(private, mode)
	if err == nil && group >= 0 {
		err = os.Lchown(private, -1, group)
	}
	if err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, path}, nil
}

// socket is a listener whose socket is removed with it.
type socket struct {
	net.Listener
	path string
}

// Close ends listening and removes the socket.
func (s *socket) Close() error { return errors.Join(s.Listener.Close(), remove(s.path)) }

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
