package server

import (
	"context"
	"errors"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Mosquitto is an MQTT server that keeps sessions and messages over a graceful restart. A kill loses changes since the
// last save, which happens every 30 minutes unless the configuration says otherwise.
type Mosquitto struct {
	*Process
	Addr string
	db   string // path of the file with sessions and messages
}

// StartMosquitto starts a server with additional lines of configuration. With a password, clients log in as conduit;
// without one, anonymously.
func StartMosquitto(t testing.TB, password, more string) *Mosquitto {
	t.Helper()
	path := Need(t, "mosquitto", "mosquitto", "/usr/sbin")
	dir, port := Dir(t), network.FreePort(t)
	m := &Mosquitto{Addr: fmt.Sprintf("127.0.0.1:%d", port), db: filepath.Join(dir, "mosquitto.db")}
	config := fmt.Sprintf("listener %d 127.0.0.1\npersistence true\npersistence_location %s/\nmax_queued_messages "+
		"0\nmax_inflight_messages 0\n%s\n", port, dir, more)
	if password == "" {
		config += "allow_anonymous true\n"
	} else {
		config += "password_file " + filepath.Join(dir, "passwords") + "\n"
	}
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Process = &Process{Path: path, Args: []string{"-c", file}, Dir: dir, Graceful: syscall.SIGTERM,
		Ready: func(ctx context.Context) error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", m.Addr)
			if err == nil {
				err = c.Close()
			}
			return err
		}}
	if password != "" {
		m.SetPassword(t, password)
	}
	m.Launch(t)
	return m
}

// SetPassword replaces the password of conduit. It takes effect at the next start of the server.
func (m *Mosquitto) SetPassword(t testing.TB, password string) {
	t.Helper()
	Run(t, m.Dir, Need(t, "mosquitto_passwd", "mosquitto", "/usr/bin"), "-b", "-c", filepath.Join(m.Dir, "passwords"),
		"conduit", password)
}

// Save makes the server write sessions and messages to its file. It returns nil when everything is in the file that the
// server had acknowledged when Save was called.
func (m *Mosquitto) Save(ctx context.Context) error {
	before, _ := os.Stat(m.db) // nil: it does not exist yet
	p := m.running()
	saved := func() bool {
		p.signal(syscall.SIGUSR1)
		now, err := os.Stat(m.db)
		return err == nil && (before == nil || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()))
	}
	if !wait.Until(ctx, func() bool { return saved() || p.ended() }) {
		return fmt.Errorf("mosquitto does not save: %w", ctx.Err())
	}
	if p.ended() { // the file may be from another run of the server
		return errors.New("mosquitto ended before it had saved")
	}
	return nil
}
