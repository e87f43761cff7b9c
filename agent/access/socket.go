package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
)

// maxSocketPath is the longest path that a socket can have on every system.
const maxSocketPath = 90

// listenSocket listens on the Unix socket of the settings. No client can open it before it has its mode and its group:
// it gets its name last.
func listenSocket(c config.HTTP) (net.Listener, error) {
	mode, err := strconv.ParseUint(c.SocketMode, 8, 32)
	switch {
	case err != nil || mode > 0o777:
		return nil, config.Invalid(fmt.Errorf("api.http.socket-mode %q is not a mode such as 0660", c.SocketMode))
	case mode&0o007 != 0:
		return nil,
			config.Invalid(fmt.Errorf("api.http.socket-mode %s lets every user of this machine do everything: leave "+
				"the last digit 0", c.SocketMode))
	case len(c.Socket) > maxSocketPath:
		return nil, config.Invalid(fmt.Errorf("api.http.socket is longer than %d bytes", maxSocketPath))
	}
	group := -1
	if c.SocketGroup != "" {
		if group, err = groupID(c.SocketGroup); err != nil {
			return nil, config.Invalid(fmt.Errorf("api.http.socket-group: %w", err))
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

// removeStale removes the socket of an agent that has ended.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen on api.http.socket: %w", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("cannot listen on api.http.socket: %s exists and is not a socket", path)
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
