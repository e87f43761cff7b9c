package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// listen listens for connections. Of a Unix socket it sets the permissions, and Close removes the file.
func (e endpoint) listen(ctx context.Context, mode string) (net.Listener, error) {
	l, err := listenAt(ctx, e, mode, func(c *net.ListenConfig) (net.Listener, error) {
		return c.Listen(ctx, e.network, e.address)
	})
	if err != nil || !e.isUnix() {
		return l, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	f, err := newSocketFile(e.address, mode, l)
	return &unixListener{l, f}, err
}

// listenPackets listens for packets, as listen does for connections.
func (e endpoint) listenPackets(ctx context.Context, mode string) (net.PacketConn, error) {
	p, err := listenAt(ctx, e, mode, func(c *net.ListenConfig) (net.PacketConn, error) {
		return c.ListenPacket(ctx, e.network, e.address)
	})
	if err != nil || !e.isUnix() {
		return p, err
	}
	f, err := newSocketFile(e.address, mode, p)
	return &unixPackets{p, f}, err
}

// listenAt calls listen, for a Unix socket after it has made room for the file.
func listenAt[L any](
	ctx context.Context, e endpoint, mode string, listen func(*net.ListenConfig) (L, error),
) (l L, err error) {
	c := &net.ListenConfig{}
	if e.isUnix() {
		if err := e.clear(ctx); err != nil {
			return l, err
		}
		c.Control = func(_, _ string, raw syscall.RawConn) error { return restrict(raw, permissions(mode)) }
	}
	return listen(c)
}

// clear checks that the connector may create the file of the socket, and removes a socket at which nobody listens, such
// as one that a killed process left.
func (e endpoint) clear(ctx context.Context) error {
	dir, err := os.Open(filepath.Dir(e.address))
	if err != nil {
		return fmt.Errorf("cannot create the socket: create its directory first: %w", err)
	}
	defer func() { _ = dir.Close() }()
	if err := sdk.CheckCreate(ctx, "address", dir, filepath.Base(e.address)); err != nil {
		return err
	}
	switch info, err := os.Lstat(e.address); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot inspect the socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket: remove it, or choose another address", e.address)
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, e.network, e.address)
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("another process listens at %s: stop it, or choose another address", e.address)
	}
	if err := os.Remove(e.address); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the socket that another process left: %w", err)
	}
	return nil
}

// permissions returns the permissions in a setting that was checked.
func permissions(mode string) fs.FileMode {
	n, _ := strconv.ParseUint(mode, 8, 32)
	return fs.FileMode(n)
}

// socketFile is the file of a Unix socket that this process listens at.
type socketFile struct {
	path string
	info fs.FileInfo
}

// newSocketFile sets the permissions of the file, which are fewer until then. After an error it closes the listener.
func newSocketFile(path, mode string, l interface{ Close() error }) (socketFile, error) {
	err := os.Chmod(path, permissions(mode))
	info, statErr := os.Lstat(path)
	if err = errors.Join(err, statErr); err != nil {
		err = errors.Join(fmt.Errorf("cannot set the permissions of the socket: %w", err), l.Close())
	}
	return socketFile{path, info}, err
}

// remove removes the file unless another process has replaced it.
func (f socketFile) remove() error {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, f.info) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(f.path)
}

type unixListener struct {
	net.Listener
	file socketFile
}

// Close stops listening and removes the file.
func (l *unixListener) Close() error { return errors.Join(l.file.remove(), l.Listener.Close()) }

type unixPackets struct {
	net.PacketConn
	file socketFile
}

// Close stops listening and removes the file.
func (p *unixPackets) Close() error { return errors.Join(p.file.remove(), p.PacketConn.Close()) }
