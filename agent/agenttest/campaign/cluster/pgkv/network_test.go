package pgkv_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/pgkv"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// write creates a file owned by the user that runs the servers.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	server.Run(t, dir, "sh", "-c", `umask 077; printf %s "$1" >"$2"`, "sh", text, path)
	return path
}

// TestTLS checks that with sslmode=verify-full all sessions are encrypted, and that a server is refused if its
// certificate is from another authority or for another host.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir, authority := server.Dir(t), network.NewAuthority(t)
	certificate, key := authority.Pair(t)
	p := server.StartPostgres(t, "", append([]string{"ssl=on", "ssl_cert_file=" + write(t, dir, "cert.pem",
		certificate), "ssl_key_file=" + write(t, dir, "key.pem", key)}, durable...)...)
	_, port, _ := net.SplitHostPort(p.Addr)
	url := func(host, authority string) string {
		return "postgres://postgres:not-to-be-shown@" + host + ":" + port +
			"/postgres?sslmode=verify-full&sslrootcert=" + authority
	}
	trusted := write(t, dir, "ca.pem", authority.PEM)
	s := opened(t, url("127.0.0.1", trusted), "tls")
	put(t, s, "p.A", "", 0)
	observe(t, s)
	conn, err := pg.Connect(t.Context(), urlOf(p), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	row, err := pg.Row(t.Context(), conn, "SELECT count(*) FILTER (WHERE ssl) > 1, bool_and(ssl) FROM pg_stat_ssl "+
		"JOIN pg_stat_activity USING (pid) WHERE application_name = 'conduit' AND pid <> pg_backend_pid()")
	if err != nil || row[0] != "t" || row[1] != "t" {
		t.Errorf("there are encrypted sessions, and no others: %q, %v", row, err)
	}
	for name, refused := range map[string]string{
		"another authority": url("127.0.0.1", write(t, dir, "other.pem", network.NewAuthority(t).PEM)),
		"another host":      url("localhost", trusted),
	} {
		err := ready(t, open(t, refused, "tls"))
		if err == nil || !strings.Contains(err.Error(), "certificate") ||
			strings.Contains(err.Error(), "not-to-be-shown") {
			t.Errorf("%s: %v, want an error about the certificate, without the password", name, err)
		}
	}
}

// TestPassword changes the password of the role while a store is in use: new sessions use the new password, and errors
// contain neither.
func TestPassword(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	execute(t, urlOf(p), "CREATE ROLE agent LOGIN PASSWORD 'first-secret'")
	execute(t, urlOf(p), "GRANT ALL ON SCHEMA public TO agent")
	rules := write(t, server.Dir(t), "hba",
		"host all agent 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
	server.Run(t, "/", "cp", rules, p.HBA())
	execute(t, urlOf(p), "SELECT pg_reload_conf()")
	var password atomic.Value
	password.Store("first-secret")
	s, err := pgkv.Open(pgkv.Options{
		URL: "postgres://agent:of-the-url@" + p.Addr + "/postgres?sslmode=disable", Cluster: "secret",
		Log:      slog.New(slog.DiscardHandler),
		Password: func() (string, error) { return password.Load().(string), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := ready(t, s); err != nil {
		t.Fatal(err)
	}
	execute(t, urlOf(p), "ALTER ROLE agent PASSWORD 'second-secret'")
	execute(t, urlOf(p), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent'")
	wait.For(t, "the first password to be refused", func() bool {
		_, err = s.Read(t.Context(), "p.A")
		return err != nil && strings.Contains(err.Error(), "password authentication failed")
	})
	if strings.Contains(err.Error(), "first-secret") || strings.Contains(err.Error(), "of-the-url") {
		t.Errorf("the error has a password: %v", err)
	}
	password.Store("second-secret")
	if o := put(t, s, "p.A", "", 0); o.Result != protocol.Applied {
		t.Errorf("a write with the other password: %+v", o)
	}
}

// TestPooler runs the conformance tests through PgBouncer, which shares sessions between transactions and does not
// forward notifications.
func TestPooler(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	p := server.StartPostgres(t, "", durable...)
	program := server.Need(t, "pgbouncer", "pgbouncer", "/usr/sbin")
	dir, port := server.Dir(t), network.FreePort(t)
	_, behind, _ := net.SplitHostPort(p.Addr)
	settings := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%s dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
`, behind, port)
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	pooler := &server.Process{Path: program, Args: []string{write(t, dir, "pgbouncer.ini", settings)}, Dir: dir,
		Ready: func(ctx context.Context) error {
			conn, err := pg.Connect(ctx, url, nil)
			pg.Close(conn)
			return err
		}}
	pooler.Launch(t)
	clustertest.Run(t, func(t *testing.T) cluster.Store { return opened(t, url, "pooled") })
}
