package mysql_test

import "github.com/conduit-agent/conduit/plugins/plugintest/wait"

// relationKinds are the kinds of relations of MariaDB, with a program that changes one, and the expected records of the
// snapshot and of the program. Snapshot and changes cover the same tables and columns.
var relationKinds = []struct {
	name, schema, program string
	rows, changes         []string
}{
	{"ordinary", "CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 1)", "UPDATE t " +
		"SET x = 2; DELETE FROM t",
		[]string{`snapshot t {"id":1} to {"id":1,"x":1}`},
		[]string{`update t {"id":1} from {"id":1,"x":1} to {"id":1,"x":2}`, `delete t {"id":1} from {"id":1,"x":2}`}},
	{"system versioning", "CREATE TABLE t (id int PRIMARY KEY, x int) WITH SYSTEM VERSIONING; INSERT INTO t VALUES " +
		"(1, 1); UPDATE t SET x = 2",
		"UPDATE t SET x = 3; UPDATE t SET id = 5; DELETE FROM t; INSERT INTO t VALUES (5, 6); DELETE HISTORY FROM t",
		[]string{`snapshot t {"id":1} to {"id":1,"x":2}`},
		[]string{`update t {"id":1} from {"id":1,"x":2} to {"id":1,"x":3}`,
			`delete t {"id":1} from {"id":1,"x":3}`, `create t {"id":5} to {"id":5,"x":3}`,
			`delete t {"id":5} from {"id":5,"x":3}`, `create t {"id":5} to {"id":5,"x":6}`}},
	{"system versioning with columns", "CREATE TABLE t (a TIMESTAMP(6) GENERATED ALWAYS AS ROW START, id int PRIMARY " +
		"KEY, b TIMESTAMP(6) GENERATED ALWAYS AS ROW END, x int, PERIOD FOR SYSTEM_TIME (a, b)) WITH SYSTEM " +
		"VERSIONING; INSERT INTO t (id, x) VALUES (1, 1); UPDATE t SET x = 2", "UPDATE t SET x = 3; DELETE FROM t",
		[]string{`snapshot t {"id":1} to {"id":1,"x":2}`},
		[]string{`update t {"id":1} from {"id":1,"x":2} to {"id":1,"x":3}`, `delete t {"id":1} from {"id":1,"x":3}`}},
	{"history in partitions", "CREATE TABLE t (id int PRIMARY KEY) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME " +
		"(PARTITION p HISTORY, PARTITION n CURRENT); INSERT INTO t VALUES (1)",
		"DELETE FROM t", []string{`snapshot t {"id":1} to {"id":1}`}, []string{`delete t {"id":1} from {"id":1}`}},
	{"versioning added", "CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 1)", "ALTER TABLE t " +
		"ADD SYSTEM VERSIONING; UPDATE t SET x = 2; DELETE FROM t",
		[]string{`snapshot t {"id":1} to {"id":1,"x":1}`},
		[]string{`update t {"id":1} from {"id":1,"x":1} to {"id":1,"x":2}`, `delete t {"id":1} from {"id":1,"x":2}`}},
	{"application period", "CREATE TABLE t (id int PRIMARY KEY, s DATE, e DATE, PERIOD FOR p (s, e)); INSERT INTO t " +
		"VALUES (1, '2020-01-01', '2020-01-03')", "DELETE FROM t",
		[]string{`snapshot t {"id":1} to {"e":"2020-01-03T00:00:00Z","id":1,"s":"2020-01-01T00:00:00Z"}`},
		[]string{`delete t {"id":1} from {"e":"2020-01-03T00:00:00Z","id":1,"s":"2020-01-01T00:00:00Z"}`}},
	{"sequence", "CREATE SEQUENCE s CACHE 1", "DO NEXTVAL(s); DO NEXTVAL(s); ALTER SEQUENCE s RESTART 9", nil, nil},
	{"dropped sequence", "CREATE SEQUENCE s CACHE 1", "DO NEXTVAL(s); ALTER SEQUENCE s RESTART 9; DROP SEQUENCE s",
		nil, nil},
	{"view", "CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW v AS SELECT id FROM t; INSERT INTO v VALUES (1)",
		"INSERT INTO v VALUES (2)",
		[]string{`snapshot t {"id":1} to {"id":1}`}, []string{`create t {"id":2} to {"id":2}`}},
	{"generated columns", "CREATE TABLE t (id int PRIMARY KEY, v int AS (id + 1) VIRTUAL, s int AS (id + 2) " +
		"STORED); INSERT INTO t (id) VALUES (1)", "UPDATE t SET id = 2",
		[]string{`snapshot t {"id":1} to {"id":1}`},
		[]string{`delete t {"id":1} from {"id":1}`, `create t {"id":2} to {"id":2}`}},
	{"invisible column", "CREATE TABLE t (id int PRIMARY KEY, h int INVISIBLE DEFAULT 5); " +
		"INSERT INTO t (id) VALUES (1)", "INSERT INTO t (id) VALUES (2)",
		[]string{`snapshot t {"id":1} to {"h":5,"id":1}`}, []string{`create t {"id":2} to {"h":5,"id":2}`}},
	{"partitions", "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), " +
		"PARTITION b VALUES LESS THAN (20)); INSERT INTO t VALUES (1)",
		"UPDATE t SET id = 11", []string{`snapshot t {"id":1} to {"id":1}`},
		[]string{`delete t {"id":1} from {"id":1}`, `create t {"id":11} to {"id":11}`}},
	{"temporary", "DO 1", "CREATE TEMPORARY TABLE x (id int PRIMARY KEY); INSERT INTO x VALUES " +
		"(1); DROP TEMPORARY TABLE x", nil, nil},
	{"memory", "CREATE TABLE t (id int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (1)", "DELETE FROM t",
		[]string{`snapshot t {"id":1} to {"id":1}`}, []string{`delete t {"id":1} from {"id":1}`}},
}

// kinds reads each kind of relations by a pattern, and again from a log that does not name columns.
func kinds(w *world) {
	defer w.exec("SET GLOBAL binlog_row_metadata = FULL")
	for _, metadata := range []string{"FULL", "NO_LOG"} {
		w.exec("SET GLOBAL binlog_row_metadata = " + metadata)
		for _, k := range relationKinds {
			if k.name == "dropped sequence" && metadata != "FULL" {
				continue // an error, as for every dropped table whose columns the log does not name
			}
			w.exec("CREATE TABLE last (id int PRIMARY KEY); " + k.schema)
			s := w.open(w.sourceSettings("*"), nil)
			if len(k.rows) > 0 {
				s.Want(k.rows...)
			}
			wait.For(w, "the rows are "+
				"read", func() bool { p := s.Progress(); return p.Seconds != nil && *p.Seconds == 0 })
			w.exec(k.program)
			w.exec("INSERT INTO last VALUES (1)")
			w.Log(metadata, k.name)
			s.Want(append(append([]string{}, k.changes...), `create last {"id":1} to {"id":1}`)...)
			s.Close()
			w.exec("DROP TABLE IF EXISTS t, last, x; DROP VIEW IF EXISTS v; DROP SEQUENCE IF EXISTS s")
		}
	}
}
