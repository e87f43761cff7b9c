package kill_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// postgresSystem is a PostgreSQL whose connector logs in as a role with a password from a file. The test itself logs in
// as a superuser without a password.
type postgresSystem struct {
	*server.Postgres
	password string // path of the file
	n        int    // passwords so far
}

// startPostgres starts a server from the programs in bin with the table ledger, which the role owns.
func startPostgres(t *testing.T, bin, dir, table string) *postgresSystem {
	p := &postgresSystem{Postgres: server.StartPostgres(t, bin), password: filepath.Join(dir, "password")}
	hba := "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost " +
		"replication all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(p.HBA(), []byte(hba), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.exec(t.Context(), "CREATE ROLE conduit LOGIN REPLICATION; GRANT CREATE ON DATABASE postgres TO "+
		"conduit; GRANT ALL ON SCHEMA public TO conduit; SET ROLE conduit; "+table); err != nil {
		t.Fatal(err)
	}
	if err := p.rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *postgresSystem) connect(ctx context.Context) (*pgconn.PgConn, error) {
	return pgconn.Connect(ctx, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.Addr))
}

func (p *postgresSystem) exec(ctx context.Context, sql string) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.Background()) }()
	return c.Exec(ctx, sql).Close()
}

func (p *postgresSystem) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": fmt.Sprintf("postgres://conduit:${file:%s}@%s/postgres?sslmode=disable",
			p.password, addr), "timeout": "2s"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
}

// rotate replaces the password, and ends the sessions that used the old one.
func (p *postgresSystem) rotate(ctx context.Context) error {
	p.n++
	word := fmt.Sprintf("secret%d", p.n)
	if err := p.exec(ctx, fmt.Sprintf("ALTER ROLE conduit PASSWORD '%s'", word)); err != nil {
		return err
	}
	if err := os.WriteFile(p.password+".new", []byte(word), 0o600); err != nil {
		return err
	}
	if err := os.Rename(p.password+".new", p.password); err != nil {
		return err
	}
	return p.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'conduit'")
}

// produce commits the numbers, some one by one and some together, each exactly once however often it is called.
func (p *postgresSystem) produce(ctx context.Context, first, n int) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.Background()) }()
	return c.Exec(ctx, transactions(first, n,
		"INSERT INTO ledger VALUES (%d, 'record %[1]d') ON CONFLICT DO NOTHING;")).Close()
}

// transactions returns statements that insert the numbers, some one by one and some together. insert has a placeholder
// for a number.
func transactions(first, n int, insert string) string {
	sql := "BEGIN;"
	for i := first; i < first+n; i++ {
		sql += fmt.Sprintf(insert, i)
		if i%3 == 0 {
			sql += "COMMIT; BEGIN;"
		}
	}
	return sql + "COMMIT"
}

// stored returns the numbers in the order of writing.
func (p *postgresSystem) stored(ctx context.Context) ([]int, error) {
	return p.numbers(ctx, "SELECT n FROM ledger ORDER BY written")
}

// numbers returns the numbers in the result of a query.
func (p *postgresSystem) numbers(ctx context.Context, query string) ([]int, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	r := c.ExecParams(ctx, query, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	var all []int
	for _, row := range r.Rows {
		n, err := strconv.Atoi(string(row[0]))
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// eachPostgres runs the suite with the newest PostgreSQL, or with each installed version: with all faults for the
// newest one, and with the faults that depend on recovery for the others.
func eachPostgres(t *testing.T, run func(t *testing.T, bin string, skip map[kill.Fault]string)) {
	const done = "the newest version has had it"
	skip := map[kill.Fault]string{}
	bins := server.PostgresDirs(t)
	if !kill.All() {
		bins = bins[:1]
	}
	for _, bin := range bins {
		version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		_, number, _ := strings.Cut(string(version), ") ")
		number, _, _ = strings.Cut(strings.TrimSpace(number), " ")
		faults := maps.Clone(skip)
		t.Run(number, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			run(t, bin, faults)
		})
		for _, one := range []kill.Fault{kill.None, kill.AgentStopped, kill.ConnectionCut, kill.ConnectionRefused,
			kill.ConnectionDelayed, kill.ConnectionStalled, kill.ConnectionHalfOpen, kill.CredentialsRotated} {
			skip[one] = done
		}
	}
}

// TestPostgresSource loses nothing, keeps the order of commits and, unless the agent is killed,
// repeats nothing.
func TestPostgresSource(t *testing.T) {
	t.Parallel()
	eachPostgres(t, func(t *testing.T, bin string, skip map[kill.Fault]string) {
		kill.RunSource(t, kill.Source{
			Plugin: "builtin:postgres",
			System: func(t *testing.T, dir string) *kill.System {
				p := startPostgres(t, bin, dir, "CREATE TABLE ledger (n int PRIMARY KEY, text text)")
				return &kill.System{
					Addr: p.Addr, Server: p, Rotate: p.rotate, Produce: p.produce,
					Settings: p.settings(map[string]string{"tables": "ledger", "heartbeat": "300ms"}),
				}
			},
			Interval: 20 * time.Millisecond, Skip: skip,
		})
	})
}

// TestPostgresDestination writes each record exactly once, without a key.
func TestPostgresDestination(t *testing.T) {
	t.Parallel()
	eachPostgres(t, func(t *testing.T, bin string, skip map[kill.Fault]string) {
		kill.RunDestination(t, kill.Destination{
			Plugin: "builtin:postgres",
			System: func(t *testing.T, dir string) *kill.System {
				p := startPostgres(t, bin, dir, "CREATE TABLE ledger (n int, text text, written bigserial)")
				return &kill.System{
					Addr: p.Addr, Server: p, Rotate: p.rotate, Stored: p.stored,
					Settings: p.settings(map[string]string{"table": "ledger", "positionTable": "conduit_positions"}),
				}
			},
			Once: true, Skip: skip,
		})
	})
}

// TestPostgresCreatedDestination writes each record exactly once to a table that it creates, with mapped columns. The
// table has no column that tells the order.
func TestPostgresCreatedDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:postgres", Once: true, Unordered: true,
		System: func(t *testing.T, dir string) *kill.System {
			p := startPostgres(t, server.PostgresDirs(t)[0], dir, "SELECT 1")
			stored := func(ctx context.Context) ([]int, error) {
				all, err := p.numbers(ctx, "SELECT number FROM created WHERE origin = 'kill' AND label = 'record ' || "+
					"number || '!'")
				if err != nil && strings.Contains(err.Error(), "does not exist") {
					return nil, nil
				}
				return all, err
			}
			return &kill.System{
				Addr: p.Addr, Server: p, Rotate: p.rotate, Stored: stored,
				Settings: p.settings(created(map[string]string{})),
			}
		},
	})
}
