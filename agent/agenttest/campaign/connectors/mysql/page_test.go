package mysql_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/page"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

const readme = "../../../../../plugins/builtin/mysql/README.md"

// TestPage starts servers with the settings of the page, and a source with the user that its statements create.
func TestPage(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	settings, grants := page.Blocks(t, readme, "ini"), page.Blocks(t, readme, "sql")
	if len(settings) != 1 || len(grants) != 1 {
		t.Fatalf("the page has %d blocks of settings and %d of SQL, and one of each is known here", len(settings),
			len(grants))
	}
	var options []string
	for line := range strings.SplitSeq(settings[0], "\n") {
		name, value, _ := strings.Cut(line, " = ")
		options = append(options, "--loose-"+name+"="+value) // loose: MySQL 5.6 has no binlog_row_metadata
	}
	for name, start := range map[string]func(testing.TB, ...string) *server.MySQL{"MariaDB": server.StartMariaDB,
		"MySQL": server.StartMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{TB: t, addr: start(t, options...).Addr, name: "shop"}
			w.db = w.connect("")
			if name == "MySQL" { // a new server treats local users as anonymous
				w.exec("DELETE FROM mysql.user WHERE user = ''; FLUSH PRIVILEGES")
			}
			w.exec("CREATE DATABASE shop; CREATE TABLE shop.t (id int PRIMARY KEY); INSERT INTO shop.t VALUES (1)")
			for line := range strings.SplitSeq(grants[0], "\n") {
				statement, product, _ := strings.Cut(line, "-- ")
				if product == "" || product == name {
					w.exec(strings.ReplaceAll(statement, "…", "secret"))
				}
			}
			s := w.open(w.sourceSettings("t", "user", "conduit", "password", "secret"), nil)
			s.Want(`snapshot t {"id":1} to {"id":1}`)
			streaming(s)
			w.exec("INSERT INTO shop.t VALUES (2)")
			s.Want(`create t {"id":2} to {"id":2}`)
			s.Close()
		})
	}
}
