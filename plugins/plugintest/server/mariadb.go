package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// MariaDB is a running MariaDB. The user root needs no password; there is no database but the server's own.
type MariaDB struct {
	*Process
	Addr string // host and port
}

// StartMariaDB starts a MariaDB with these options in addition, as --NAME=VALUE.
func StartMariaDB(t testing.TB, options ...string) *MariaDB {
	t.Helper()
	path := Need(t, "mariadbd", "mariadb-server", "/usr/sbin")
	install := Need(t, "mariadb-install-db", "mariadb-server", "/usr/bin")
	dir := Dir(t)
	data, port := filepath.Join(dir, "data"), FreePort(t)
	// A server that starts removes the temporary tables of all others in the same directory.
	tmp := "--tmpdir=" + dir
	Run(t, dir, install, "--no-defaults", "--datadir="+data, tmp, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin", "--innodb-flush-method=nosync")
	m := &MariaDB{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	args := []string{"--no-defaults", "--datadir=" + data, tmp, "--socket=" + filepath.Join(dir, "socket"), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=2", "--performance-schema=OFF"}
	m.Process = &Process{Path: path, Args: append(args, options...), Dir: dir, Ready: func(ctx context.Context) error { return greetsMySQL(ctx, m.Addr) }}
	m.Launch(t)
	return m
}

// greetsMySQL returns nil when a server at addr offers to log in.
func greetsMySQL(ctx context.Context, addr string) error {
	head, err := greeting(ctx, addr, "", 5) // length, number, and the version of the protocol
	if err != nil {
		return err
	}
	if head[4] != 10 { // an error says that it is starting
		return errors.New("it is starting")
	}
	return nil
}
