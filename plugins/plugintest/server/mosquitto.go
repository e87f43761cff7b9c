package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Mosquitto is an MQTT server that keeps sessions and messages over a restart.
type Mosquitto struct {
	*Process
	Addr string
}

// StartMosquitto starts a server with further lines of configuration. With a password, clients
// log in as conduit; without one, anonymously.
func StartMosquitto(t testing.TB, password, more string) *Mosquitto {
	t.Helper()
	path := Need(t, "mosquitto", "mosquitto", "/usr/sbin")
	dir, port := Dir(t), FreePort(t)
	m := &Mosquitto{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	config := fmt.Sprintf("listener %d 127.0.0.1\npersistence true\npersistence_location %s/\nmax_queued_messages 0\nmax_inflight_messages 0\n%s\n", port, dir, more)
	if password == "" {
		config += "allow_anonymous true\n"
	} else {
		config += "password_file " + filepath.Join(dir, "passwords") + "\n"
	}
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Process = &Process{Path: path, Args: []string{"-c", file}, Dir: dir, Graceful: syscall.SIGTERM, Ready: func(ctx context.Context) error {
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

// SetPassword replaces the password of conduit. The server knows it when it is started again.
func (m *Mosquitto) SetPassword(t testing.TB, password string) {
	t.Helper()
	Run(t, m.Dir, Need(t, "mosquitto_passwd", "mosquitto", "/usr/bin"), "-b", "-c", filepath.Join(m.Dir, "passwords"), "conduit", password)
}
