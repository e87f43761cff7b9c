package postgres_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
)

// startTLS starts a server that accepts only clients with a certificate, and returns the files that a URL needs to
// reach it: the server's authority, and the certificate and key of the role test.
func startTLS(t *testing.T) (s *server.Postgres, root, cert, key string) {
	t.Helper()
	dir, own := server.Dir(t), t.TempDir()
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	settings := []string{"ssl=on"}
	for name, text := range map[string]string{"cert": serverCert, "key": serverKey, "ca": clientCert} {
		path := write(dir, name, text)
		if err := os.Chown(path, int(info.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "ssl_"+name+"_file="+path)
	}
	s = server.StartPostgres(t, "", settings...)
	run(t, s, "postgres", "CREATE ROLE test SUPERUSER LOGIN REPLICATION; CREATE TABLE t (id int PRIMARY KEY); INSERT "+
		"INTO t VALUES (1)")
	const hba = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 " +
		"cert\nhostssl replication all 127.0.0.1/32 cert\n"
	if err := os.WriteFile(s.HBA(), []byte(hba), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, write(own, "root", serverCert), write(own, "cert", clientCert), write(own, "key", clientKey)
}

// TestTLS reads and writes with sslmode verify-full and a client certificate, and is refused without either.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	s, root, cert, key := startTLS(t)
	w := &world{T: t, server: s, db: "postgres"}
	client := "&sslcert=" + cert + "&sslkey=" + key
	url := "postgres://test@" + s.Addr + "/postgres?sslmode=verify-full&sslrootcert=" + root + client
	w.open(map[string]string{"url": url, "tables": "t"}, nil).Want(`snapshot t {"id":1} to {"id":1}`)
	w.destination(map[string]string{"url": url}).write(plugintest.Row(1, record.OperationCreate, m{"id": 2},
		m{"id": 2}))
	byName := strings.Replace(url, "127.0.0.1", "localhost", 1)
	w.destination(map[string]string{"url": strings.Replace(byName, "verify-full", "verify-ca", 1)}).write(
		plugintest.Row(2, record.OperationCreate, m{"id": 3}, m{"id": 3}))
	for name, c := range map[string]struct{ url, want string }{
		"another authority": {strings.Replace(url, "sslrootcert="+root, "sslrootcert="+cert, 1),
			"certificate signed by unknown authority"},
		"another name":   {byName, "wanted to match localhost"},
		"no certificate": {strings.Replace(url, client, "", 1), "certificate"},
		"no TLS":         {"postgres://test@" + s.Addr + "/postgres?sslmode=disable", "pg_hba.conf"},
	} {
		err := w.newSource("p:other").TryOpen(map[string]string{"url": c.url, "tables": "t"}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
