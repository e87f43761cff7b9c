package postgres_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// relationKinds are the kinds of relations, with a program that changes one, and the expected records of the snapshot
// and of the program. Snapshot and changes cover the same tables, rows and columns. publication is a publication of
// another role; if empty, the source creates one. named is the error when tables names the relation r; left are the
// skipped relations.
var relationKinds = []struct {
	name, schema, publication, program string
	rows, changes                      []string
	named, left                        string
	since, before                      int // versions of PostgreSQL; 0: all
}{
	{name: "ordinary", schema: "CREATE TABLE r (id int PRIMARY KEY, x int); INSERT INTO r VALUES (1, 1)",
		program: "UPDATE r SET x = 2; DELETE FROM r",
		rows:    []string{`snapshot r {"id":1} to {"id":1,"x":1}`},
		changes: []string{`update r {"id":1} to {"id":1,"x":2}`, `delete r {"id":1} from {"id":1}`}},
	{name: "generated column", schema: "CREATE TABLE r (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) " +
		"STORED); INSERT INTO r VALUES (1)", program: "INSERT INTO r VALUES (2)",
		rows: []string{`snapshot r {"id":1} to {"id":1}`}, changes: []string{`create r {"id":2} to {"id":2}`}},
	{name: "generated column, with publication", schema: "CREATE TABLE r (id int PRIMARY KEY, g int GENERATED " +
		"ALWAYS AS (id * 2) STORED); INSERT INTO r VALUES (1)",
		publication: "CREATE PUBLICATION %s FOR ALL TABLES", program: "INSERT INTO r VALUES (2)",
		rows: []string{`snapshot r {"id":1} to {"id":1}`}, changes: []string{`create r {"id":2} to {"id":2}`}},
	{name: "generated column of a publication", schema: "CREATE TABLE r (id int PRIMARY KEY, g int GENERATED ALWAYS " +
		"AS (id * 2) STORED); INSERT INTO r VALUES (1)", since: 18,
		publication: "CREATE PUBLICATION %s FOR TABLE r WITH (publish_generated_columns = stored)",
		program:     "INSERT INTO r VALUES (2)",
		rows:        []string{`snapshot r {"id":1} to {"g":2,"id":1}`},
		changes:     []string{`create r {"id":2} to {"g":4,"id":2}`}},
	{name: "generated key", schema: "CREATE TABLE r (x int, g int GENERATED ALWAYS AS (x * 2) STORED PRIMARY KEY)",
		program: "INSERT INTO r VALUES (2); UPDATE r SET x = 3", left: "public.r",
		named: "generated column"},
	{name: "generated key, and the whole row", schema: "CREATE TABLE r (x int, g int GENERATED ALWAYS AS (x * 2) " +
		"STORED PRIMARY KEY); ALTER TABLE r REPLICA IDENTITY FULL; INSERT INTO r VALUES (1)", before: 18,
		program: "UPDATE r SET x = 2", rows: []string{`snapshot r null to {"x":1}`},
		changes: []string{`update r null from {"x":1} to {"x":2}`}},
	{name: "partitioned", schema: "CREATE TABLE r (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE r_1 " +
		"PARTITION OF r FOR VALUES FROM (0) TO (10); " +
		"CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id); CREATE TABLE r_3 " +
		"PARTITION OF r_2 FOR VALUES FROM (10) TO (20); INSERT INTO r VALUES (1), (11)",
		program: "UPDATE r SET id = 12 WHERE id = 1; CREATE TABLE r_4 PARTITION OF r FOR VALUES FROM (20) TO (30); " +
			"INSERT INTO r VALUES (21); DELETE FROM r_3 WHERE id = 11",
		rows: []string{`snapshot r {"id":1} to {"id":1}`, `snapshot r {"id":11} to {"id":11}`},
		changes: []string{`delete r {"id":1} from {"id":1}`, `create r {"id":12} to {"id":12}`,
			`create r {"id":21} to {"id":21}`, `delete r {"id":11} from {"id":11}`}},
	{name: "partitions that are published as such", schema: "CREATE TABLE r (id int PRIMARY KEY, x int) PARTITION BY " +
		"RANGE (id); CREATE TABLE r_1 (x int, id int PRIMARY KEY); ALTER TABLE r ATTACH PARTITION r_1 FOR VALUES " +
		"FROM (0) TO (10); INSERT INTO r VALUES (1, 1)", publication: "CREATE PUBLICATION %s FOR ALL TABLES",
		program: "UPDATE r SET x = 2; CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (10) TO (20); INSERT INTO r " +
			"VALUES (11, 3); DELETE FROM r WHERE id = 1",
		rows: []string{`snapshot r {"id":1} to {"id":1,"x":1}`},
		changes: []string{`update r {"id":1} to {"id":1,"x":2}`,
			`create r {"id":11} to {"id":11,"x":3}`, `delete r {"id":1} from {"id":1}`}},
	{name: "partitioned table in a publication of partitions", schema: "CREATE TABLE r (id int PRIMARY KEY) " +
		"PARTITION BY RANGE (id); CREATE TABLE r_1 PARTITION OF r DEFAULT; INSERT INTO r VALUES (1)",
		publication: "CREATE PUBLICATION %s FOR TABLE r", program: "INSERT INTO r VALUES (2)",
		rows: []string{`snapshot r {"id":1} to {"id":1}`}, changes: []string{`create r {"id":2} to {"id":2}`}},
	{name: "unlogged and foreign partitions", schema: "CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER files " +
		"FOREIGN DATA WRAPPER file_fdw; CREATE TABLE r (id int) PARTITION BY RANGE (id); " +
		"CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (0) TO (10); ALTER TABLE r_1 REPLICA IDENTITY FULL; " +
		"CREATE FOREIGN TABLE r_f PARTITION OF r FOR VALUES FROM (20) TO (30) SERVER files OPTIONS (program 'echo " +
		"25'); INSERT INTO r VALUES (1)",
		program: "INSERT INTO r VALUES (2)", rows: []string{`snapshot r null to {"id":1}`},
		changes: []string{`create r null to {"id":2}`}, left: "public.r_f"},
	{name: "inherited", schema: "CREATE TABLE r (id int PRIMARY KEY); CREATE TABLE s (PRIMARY KEY (id)) INHERITS " +
		"(r); INSERT INTO r VALUES (1); INSERT INTO s VALUES (2)", program: "INSERT INTO s VALUES (3)",
		rows:    []string{`snapshot r {"id":1} to {"id":1}`, `snapshot s {"id":2} to {"id":2}`},
		changes: []string{`create s {"id":3} to {"id":3}`}},
	{name: "view", schema: "CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW r AS SELECT id FROM t; " +
		"INSERT INTO r VALUES (1)", program: "INSERT INTO r VALUES (2)",
		rows:    []string{`snapshot t {"id":1} to {"id":1}`},
		changes: []string{`create t {"id":2} to {"id":2}`}, named: "a view has none"},
	{name: "materialized view", schema: "CREATE MATERIALIZED VIEW r AS SELECT 1 AS id", program: "REFRESH " +
		"MATERIALIZED VIEW r", named: "a materialized view has none"},
	{name: "sequence", schema: "CREATE SEQUENCE r", program: "SELECT nextval('r')", named: "a sequence has none"},
	{name: "foreign table", schema: "CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER files FOREIGN DATA " +
		"WRAPPER file_fdw; CREATE FOREIGN TABLE r (id int) SERVER files OPTIONS (program 'echo 1')",
		program: "SELECT * FROM r", named: "a foreign table has none"},
	{name: "partition", schema: "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE r " +
		"PARTITION OF p DEFAULT; INSERT INTO r VALUES (1)", program: "INSERT INTO r VALUES (2)",
		rows: []string{`snapshot p {"id":1} to {"id":1}`}, changes: []string{`create p {"id":2} to {"id":2}`},
		named: "alone: read the partitioned table p"},
	{name: "unlogged", schema: "CREATE UNLOGGED TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1)",
		program: "INSERT INTO r VALUES (2)", named: "unlogged or temporary"},
	{name: "nothing", schema: "SELECT 1", program: "SELECT 1", named: "no such table"},
	{name: "columns and rows of a publication", schema: "CREATE TABLE r (id int PRIMARY KEY, x int, secret text); " +
		"INSERT INTO r VALUES (1, 1, 's'), (2, 2, 's')",
		publication: "CREATE PUBLICATION %s FOR TABLE r (id, x) WHERE (id > 1)", program: "INSERT INTO r VALUES (0, " +
			"0, 's'), (3, 3, 's')",
		rows:    []string{`snapshot r {"id":2} to {"id":2,"x":2}`},
		changes: []string{`create r {"id":3} to {"id":3,"x":3}`}},
	{name: "columns of a publication without the key", schema: "CREATE TABLE r (id int PRIMARY KEY, x int); INSERT " +
		"INTO r VALUES (1, 1)",
		publication: "CREATE PUBLICATION %s FOR TABLE r (x) WITH (publish = 'insert')", program: "INSERT INTO r " +
			"VALUES (3, 3)",
		rows: []string{`snapshot r null to {"x":1}`}, changes: []string{`create r null to {"x":3}`}},
}

// kinds reads each kind of relations by a pattern, or by its name where the publication belongs to another role.
func kinds(w *world) {
	for _, k := range relationKinds {
		w.Run(k.name, func(t *testing.T) {
			w := in(t, w.server)
			version, _ := strconv.Atoi(w.query("SELECT current_setting('server_version_num')::int / 10000"))
			if version < k.since || k.before > 0 && version >= k.before {
				return
			}
			w.exec(k.schema)
			tables := "*"
			if k.publication != "" {
				w.exec(fmt.Sprintf(k.publication, w.db))
				tables = "r"
			}
			s := w.open(w.settings(tables), nil)
			if len(k.rows) > 0 {
				s.Want(k.rows...)
			}
			s.streaming()
			var left []string
			for _, one := range s.Progress().Skipped {
				left = append(left, one.Of)
			}
			if got := strings.Join(left, ","); got != k.left {
				w.Errorf("left out: %q, want %q", got, k.left)
			}
			w.exec(k.program)
			if len(k.changes) > 0 {
				s.Want(k.changes...)
			}
			s.Close()
			if k.named == "" {
				return
			}
			if err := w.newSource(w.db+":source").TryOpen(w.settings("r"),
				nil); err == nil || !strings.Contains(err.Error(), k.named) {
				w.Errorf("by its name: got %v, want %q", err, k.named)
			}
		})
	}
}
