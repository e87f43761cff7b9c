package kill_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// mysqlServer is a MariaDB or MySQL whose connector logs in with a password from a file. The test itself logs in as
// root without a password.
type mysqlServer struct {
	*server.MySQL
	db       *sql.DB
	password string // path of the file
	n        int    // passwords so far
}

// startMariaDB starts a MariaDB with a database shop and the table that setup creates in it.
func startMariaDB(t testing.TB, dir, setup string, options ...string) *mysqlServer {
	t.Helper()
	return withShop(t, server.StartMariaDB(t, options...), dir, setup)
}

// withShop creates a database shop in the server, and in it the table of setup.
func withShop(t testing.TB, s *server.MySQL, dir, setup string) *mysqlServer {
	t.Helper()
	d := &mysqlServer{MySQL: s, password: filepath.Join(dir, "password")}
	var err error
	if d.db, err = sql.Open("mysql", "root@tcp("+d.Addr+")/?multiStatements=true&timeout=5s&readTimeout=10s"); err ==
		nil {
		_, err = d.db.ExecContext(t.Context(),
			"CREATE DATABASE shop CHARACTER SET utf8mb4; CREATE USER conduit@'127.0.0.1', conduit@localhost; GRANT "+
				"ALL ON shop.* TO conduit@'127.0.0.1', conduit@localhost; USE shop; "+setup)
	}
	if err == nil {
		err = d.rotate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.db.Close() })
	return d
}

// rotate replaces the password, and ends the sessions that used the old one.
func (d *mysqlServer) rotate(ctx context.Context) error {
	d.n++
	word := fmt.Sprintf("secret%d", d.n)
	if _, err := d.db.ExecContext(ctx, fmt.Sprintf("SET PASSWORD FOR conduit@'127.0.0.1' = PASSWORD('%s'); SET "+
		"PASSWORD FOR conduit@localhost = PASSWORD('%s')", word, word)); err != nil {
		return err
	}
	if err := os.WriteFile(d.password+".new", []byte(word), 0o600); err != nil {
		return err
	}
	if err := os.Rename(d.password+".new", d.password); err != nil {
		return err
	}
	sessions, err := numbersOf(ctx, d.db, "SELECT id FROM information_schema.processlist WHERE user = 'conduit'")
	for _, id := range sessions {
		_, _ = d.db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)) // it may have ended by itself
	}
	return err
}

func (d *mysqlServer) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"address": addr, "database": "shop", "user": "conduit",
			"password": "${file:" + d.password + "}", "timeout": "3s"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
}

// replicated are the options of a server that a source reads from.
var replicated = []string{"--log-bin=bin", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--server-id=1"}

const mayReplicate = "; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO conduit@'127.0.0.1', conduit@localhost"

// startReplicated starts a server from which the connector may read changes.
func startReplicated(t testing.TB, dir, setup string) *mysqlServer {
	t.Helper()
	return startMariaDB(t, dir, setup+mayReplicate, replicated...)
}

// produce commits the numbers, some one by one and some together, each exactly once however often it is called.
func (d *mysqlServer) produce(ctx context.Context, first, n int) error {
	_, err := d.db.ExecContext(ctx, "USE shop; "+transactions(first, n,
		"INSERT IGNORE INTO ledger VALUES (%d, 'record %[1]d');"))
	return err
}

// TestMySQLSource loses nothing, keeps the order of commits and, unless the agent is killed, repeats nothing.
func TestMySQLSource(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, string, string) *mysqlServer{"MariaDB": startReplicated,
		"MySQL": startReplicatedMySQL} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunSource(t, kill.Source{
				Plugin: "builtin:mysql",
				System: func(t *testing.T, dir string) *kill.System {
					d := start(t, dir, "CREATE TABLE ledger (n int PRIMARY KEY, text text)")
					return &kill.System{
						Addr: d.Addr, Server: d, Rotate: d.rotate, Produce: d.produce,
						Settings: d.settings(map[string]string{"tables": "ledger", "heartbeat": "300ms"}),
					}
				},
				Interval: 20 * time.Millisecond,
			})
		})
	}
}

// startReplicatedMySQL is startReplicated for a MySQL with GTIDs.
func startReplicatedMySQL(t testing.TB, dir, setup string) *mysqlServer {
	t.Helper()
	options := []string{"--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--gtid-mode=ON",
		"--enforce-gtid-consistency", "--log-slave-updates"}
	// Without RELOAD, a row written while the snapshot begins may arrive twice.
	const mayLock = "; GRANT RELOAD ON *.* TO conduit@'127.0.0.1', conduit@localhost"
	return withShop(t, server.StartMySQL(t, options...), dir, setup+mayReplicate+mayLock)
}

// TestMySQLDestination writes each record exactly once, without a key.
func TestMySQLDestination(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *server.MySQL{"MariaDB": server.StartMariaDB,
		"MySQL": server.StartMySQL} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:mysql", Once: true,
				System: func(t *testing.T, dir string) *kill.System {
					d := withShop(t, start(t), dir,
						"CREATE TABLE ledger (written bigint AUTO_INCREMENT PRIMARY KEY, n int, text text)")
					stored := func(ctx context.Context) ([]int, error) {
						return numbersOf(ctx, d.db, "SELECT n FROM shop.ledger ORDER BY written")
					}
					return &kill.System{
						Addr: d.Addr, Server: d, Rotate: d.rotate, Stored: stored,
						Settings: d.settings(map[string]string{"table": "ledger",
							"positionTable": "conduit_positions"}),
					}
				},
			})
		})
	}
}

// TestMySQLCreatedDestination writes each record exactly once to a table that it creates, with mapped columns. The
// table has no column that tells the order.
func TestMySQLCreatedDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:mysql", Once: true, Unordered: true,
		System: func(t *testing.T, dir string) *kill.System {
			d := withShop(t, server.StartMariaDB(t), dir, "SELECT 1")
			stored := func(ctx context.Context) ([]int, error) {
				return storedCreated(ctx, d.db, "SELECT number FROM shop.created WHERE origin = 'kill' AND label = "+
					"concat('record ', number, '!')")
			}
			return &kill.System{
				Addr: d.Addr, Server: d, Rotate: d.rotate, Stored: stored,
				Settings: d.settings(created(map[string]string{})),
			}
		},
	})
}

// TestMySQLExample runs the example of the destination, with the server and paths of the test.
func TestMySQLExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	d := startMariaDB(t, t.TempDir(), "SELECT 1")
	if err := os.WriteFile(a.Path("orders.jsonl"),
		[]byte(`{"id": 1, "total": "9.90"}`+"\n"+`{"id": 2, "total": "1"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := example(t, "plugins/builtin/mysql/README.md", "\n## Destination")
	file = replace(t, file, "address: db.example.com", "address: "+d.Addr)
	file = replace(t, file, "tls.enabled: 'true'", "tls.enabled: 'false'")
	file = replace(t, file, "/etc/conduit/shop-password", d.password)
	a.Save("orders.yaml", replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl")))
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	a.Wait("the rows", func() bool {
		all, err := numbersOf(t.Context(), d.db, "SELECT order_id FROM shop.orders WHERE total IN (9.90, 1) AND shop = "+
			"'berlin' ORDER BY order_id")
		return err == nil && strings.Trim(fmt.Sprint(all), "[]") == "1 2"
	})
}

// TestMySQLSourceExample runs the example of the source, with the server and paths of the test.
func TestMySQLSourceExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	d := startReplicated(t, t.TempDir(), "CREATE TABLE orders (id int PRIMARY KEY, total decimal(10,2)); CREATE "+
		"TABLE customers (id int PRIMARY KEY); INSERT INTO orders VALUES (1, 9.90); INSERT INTO customers VALUES (7)")
	file := example(t, "plugins/builtin/mysql/README.md", "# mysql\n")
	file = replace(t, file, "address: db.example.com", "address: "+d.Addr)
	file = replace(t, file, "tls.enabled: 'true'", "tls.enabled: 'false'")
	file = replace(t, file, "/etc/conduit/shop-password", d.password)
	a.Save("orders.yaml", replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl")))
	lines := func() string {
		content, _ := os.ReadFile(a.Path("orders.jsonl"))
		return string(content)
	}
	a.Wait("both rows", func() bool { return strings.Count(lines(), `"operation":"snapshot"`) == 2 })
	if _, err := d.db.ExecContext(t.Context(), "UPDATE shop.orders SET total = 10 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	a.Wait("the change", func() bool {
		return strings.Contains(lines(), `"operation":"update"`) && strings.Contains(lines(), `"total":"10.00"`)
	})
}
