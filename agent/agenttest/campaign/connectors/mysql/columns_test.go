package mysql_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

func (w *world) newTables() *builtintest.SQLTables {
	return &builtintest.SQLTables{Open: w.sink().Open, Query: w.query, Quote: mysql.Quote}
}

// creates writes to missing tables.
func creates(t *testing.T, s *server.MySQL) {
	w := in(t, s, "SELECT 1")
	all := w.newTables()
	all.CheckCreates(t, "1|yes|-7|9223372036854775808|1.5|"+
		"12345678901234567890.120000000000000000000000000000|a'\"b|now|\n"+
		"2|no|||||||")
	const want = "id bigint(20), at datetime(6), b tinyint(1), big bigint(20) unsigned, f double, i int(11), " +
		"j longtext, later longtext, list longtext, n decimal(65,30), raw longblob, unset longtext, x longtext"
	types := w.query("SELECT group_concat(column_name, ' ', column_type ORDER BY ordinal_position SEPARATOR ', ') FROM " +
		"information_schema.columns WHERE table_schema = database() AND table_name = 'typed'")
	if w.isMariaDB() && types != want {
		t.Errorf("got\n%s\nwant\n%s", types, want)
	}
	if got := w.query("SELECT hex(raw), at, json_unquote(json_extract(j, '$.a[1]')), list FROM typed WHERE id = 1"); got !=
		"00FF|2026-01-02 03:04:05.678000|x|[1]" {
		t.Errorf("got %s", got)
	}
	all.CheckNames(t, strings.Repeat("ä", 65))
	all.CheckMissing(t)
	all.CheckModes(t)
	all.CheckCreatesOnce(t)

	w.exec("CREATE DATABASE IF NOT EXISTS beside; DROP TABLE IF EXISTS beside.new")
	r := plugintest.Row(1, record.OperationCreate, m{"k": []byte("a")}, m{"k": []byte("a"), "x": 1})
	r.Metadata.Set(record.KeyCollection, "beside.new")
	w.write([]record.Record{r, r}, "schema.evolution", "create")
	if got := w.query("SELECT k, x FROM beside.new"); got != "a|1" {
		t.Errorf("got %s", got)
	}
}

func createsTogether(t *testing.T, s *server.MySQL) {
	in(t, s, "SELECT 1").newTables().CheckConcurrent(t)
}

func mapping(t *testing.T, s *server.MySQL) { in(t, s, "SELECT 1").newTables().CheckMapping(t) }

func addedColumns(t *testing.T, s *server.MySQL) {
	w := in(t, s, "SELECT 1")
	w.newTables().CheckAddedColumns(t, func(text string) { w.exec(text) })
}
