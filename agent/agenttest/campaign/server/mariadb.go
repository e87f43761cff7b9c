package server

import (
	"context"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"path/filepath"
	"testing"
)

// StartMariaDB starts a MariaDB with additional options, as --NAME=VALUE.
func StartMariaDB(t testing.TB, options ...string) *MySQL {
	t.Helper()
	path := Need(t, "mariadbd", "mariadb-server", "/usr/sbin")
	install := Need(t, "mariadb-install-db", "mariadb-server", "/usr/bin")
	dir := Dir(t)
	data, port := filepath.Join(dir, "data"), network.FreePort(t)
	// A starting server removes the temporary tables of all others in the same directory.
	tmp := "--tmpdir=" + dir
	Run(t, dir, install, "--no-defaults", "--datadir="+data, tmp, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-log-bin", "--innodb-flush-method=nosync")
	m := &MySQL{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	args := append([]string{"--no-defaults", "--datadir=" + data, tmp}, small(dir, port)...)
	m.Process = &Process{Path: path, Args: append(args, options...), Dir: dir, Ready: func(ctx context.Context) error {
		return greetsMySQL(ctx, m.Addr)
	}}
	m.Launch(t)
	return m
}
