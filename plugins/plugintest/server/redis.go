package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Redis is a server that has on its disk what it acknowledges.
type Redis struct {
	*Process
	Addr string
	acl  string // path of the file with users; empty: there are none
}

// StartRedis starts a server with further lines of configuration. With a password, clients log in
// as conduit; without one, anonymously.
func StartRedis(t testing.TB, password, more string) *Redis {
	t.Helper()
	path := Need(t, "redis-server", "redis-server", "/usr/bin")
	dir, port := Dir(t), FreePort(t)
	r := &Redis{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nappendonly yes\nappendfsync always\nsave \"\"\n%s\n", port, dir, more)
	if password != "" {
		r.acl = filepath.Join(dir, "users.acl")
		config += "aclfile " + r.acl + "\n"
		if err := r.SetPassword(password); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Process = &Process{Path: path, Args: []string{file}, Dir: dir, Ready: r.answers}
	r.Launch(t)
	return r
}

// answers returns nil when the server has loaded its data: until then it says so.
func (r *Redis) answers(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, len("-LOADING"))
	if _, err := c.Read(answer); err != nil {
		return err
	}
	if strings.HasPrefix(string(answer), "-LOADING") {
		return fmt.Errorf("it is loading")
	}
	return nil
}

// SetPassword replaces the password of conduit. The server knows it when it is started again.
func (r *Redis) SetPassword(password string) error {
	// Without rights of the user default, Redis 7 does not replay transactions of its log.
	users := "user default off ~* &* +@all\nuser conduit on >" + password + " ~* &* +@all\n"
	return os.WriteFile(r.acl, []byte(users), 0o644)
}
