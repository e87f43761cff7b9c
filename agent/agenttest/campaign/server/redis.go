package server

import (
	"context"
	"errors"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Redis is a server that writes to its disk before it acknowledges.
type Redis struct {
	*Process
	Addr string
	acl  string // path of the file with users; empty: there are none
}

// StartRedis starts a server with additional lines of configuration. With a password, clients log in as conduit;
// without one, anonymously.
func StartRedis(t testing.TB, password, more string) *Redis {
	t.Helper()
	path := Need(t, "redis-server", "redis-server", "/usr/bin")
	dir, port := Dir(t), network.FreePort(t)
	r := &Redis{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nappendonly yes\nappendfsync always\nsave \"\"\n%s\n", port,
		dir, more)
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

// answers returns nil when the server has loaded its data.
func (r *Redis) answers(ctx context.Context) error {
	answer, err := greeting(ctx, r.Addr, "PING\r\n", len("+PONG\r\n"))
	if err == nil && strings.HasPrefix("-LOADING", string(answer)) {
		err = errors.New("it is loading")
	}
	return err
}

// SetPassword replaces the password of conduit. It takes effect at the next start of the server.
func (r *Redis) SetPassword(password string) error {
	// Unless the user default has permissions, Redis 7 does not replay transactions from its log.
	users := "user default off ~* &* +@all\nuser conduit on >" + password + " ~* &* +@all\n"
	return os.WriteFile(r.acl, []byte(users), 0o644)
}
