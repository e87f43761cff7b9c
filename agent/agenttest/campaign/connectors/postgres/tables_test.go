package postgres_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// relations lists all kinds of relations with the statements of a program. left is set for relations that cannot be
// captured without harm.
var relations = []struct{ name, schema, program, left string }{
	{"ordinary", "CREATE TABLE ordinary (id int PRIMARY KEY, x text)", "INSERT INTO ordinary VALUES (1); UPDATE " +
		"ordinary SET x = 'a'; DELETE FROM ordinary; TRUNCATE ordinary", ""},
	{"keyless", "CREATE TABLE keyless (id int, x text)", "INSERT INTO keyless VALUES (1); UPDATE keyless SET x = " +
		"'a'; DELETE FROM keyless", "keyless"},
	{"unique", "CREATE TABLE uniq (id int NOT NULL UNIQUE)", "INSERT INTO uniq VALUES (1); UPDATE uniq SET " +
		"id = 2; DELETE FROM uniq", "uniq"},
	{"deferrable key", "CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE, x text)", "INSERT INTO deferred VALUES " +
		"(1); UPDATE deferred SET x = 'a'; DELETE FROM deferred", "deferred"},
	{"identity full", "CREATE TABLE whole (id int); ALTER TABLE whole REPLICA IDENTITY FULL", "INSERT INTO whole " +
		"VALUES (1); UPDATE whole SET id = 2; DELETE FROM whole", ""},
	{"identity nothing", "CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING",
		"INSERT INTO nothing VALUES (1); UPDATE nothing SET id = 2; DELETE FROM nothing", "nothing"},
	{"identity index", "CREATE TABLE indexed (id int NOT NULL, x text); CREATE UNIQUE INDEX indexed_id ON indexed " +
		"(id); ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_id", "INSERT INTO indexed VALUES (1); UPDATE " +
		"indexed SET x = 'a'; DELETE FROM indexed", ""},
	{"identity index dropped", "CREATE TABLE indexless (id int NOT NULL PRIMARY KEY); CREATE UNIQUE INDEX " +
		"indexless_id ON indexless (id); ALTER TABLE indexless REPLICA IDENTITY USING INDEX indexless_id; " +
		"DROP INDEX indexless_id",
		"INSERT INTO indexless VALUES (1); UPDATE indexless SET id = 2; DELETE FROM indexless",
		"indexless"},
	{"partitioned", "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE parted_1 " +
		"PARTITION OF parted FOR VALUES FROM (0) TO (10)", "INSERT INTO parted VALUES (1); UPDATE parted SET id = 2; " +
		"DELETE FROM parted_1", ""},
	{"partitioned without a key", "CREATE TABLE heap (id int) PARTITION BY RANGE (id); CREATE TABLE heap_1 PARTITION " +
		"OF heap FOR VALUES FROM (0) TO (10)", "INSERT INTO heap VALUES (1); UPDATE heap SET id = 2; DELETE FROM heap",
		"heap"},
	{"one partition without identity", "CREATE TABLE mixed (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE " +
		"TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (0) TO (10); ALTER TABLE mixed_1 REPLICA IDENTITY NOTHING",
		"INSERT INTO mixed VALUES (1); UPDATE mixed SET id = 2; DELETE FROM mixed", "mixed"},
	{"partitions with identity", "CREATE TABLE full_parted (id int) PARTITION BY LIST (id); CREATE TABLE " +
		"full_parted_1 PARTITION OF full_parted DEFAULT; ALTER TABLE full_parted_1 REPLICA IDENTITY FULL",
		"INSERT INTO full_parted VALUES (1); UPDATE full_parted SET id = 2; DELETE FROM full_parted", ""},
	{"inherited", "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (x text) INHERITS (parent); CREATE " +
		"TABLE good_child (PRIMARY KEY (id)) INHERITS (parent)", "INSERT INTO child VALUES (1); UPDATE parent SET id " +
		"= id + 1; UPDATE child SET x = 'a'; INSERT INTO good_child VALUES (3); DELETE FROM parent", "child"},
	{"unlogged", "CREATE UNLOGGED TABLE unlogged (id int)", "INSERT INTO unlogged VALUES (1); UPDATE unlogged SET id " +
		"= 2; DELETE FROM unlogged", ""},
	{"temporary", "SELECT 1", "CREATE TEMP TABLE t (id int); INSERT INTO t VALUES (1); UPDATE t " +
		"SET id = 2; DELETE FROM t", ""},
	{"views", "CREATE VIEW v AS SELECT id FROM ordinary; CREATE MATERIALIZED VIEW mv AS SELECT 1 AS id",
		"INSERT INTO v VALUES (7); UPDATE v SET id = 8; DELETE FROM v; REFRESH MATERIALIZED VIEW mv", ""},
	{"generated", "CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
		"INSERT INTO made VALUES (1); UPDATE made SET id = 2; DELETE FROM made", ""},
	{"sequence", "CREATE TABLE counted (id serial PRIMARY KEY)", "INSERT INTO counted DEFAULT VALUES; SELECT " +
		"nextval('counted_id_seq'); DELETE FROM counted", ""},
	{"quoted", `CREATE TABLE "a ""b' c" ("Id" int PRIMARY KEY)`,
		`INSERT INTO "a ""b' c" VALUES (1); UPDATE "a ""b' c" SET "Id" = 2; DELETE FROM "a ""b' c"`, ""},
	{"other schema", "CREATE SCHEMA other; CREATE TABLE other.keyless (id int)", "INSERT INTO other.keyless VALUES " +
		"(1); UPDATE other.keyless SET id = 2; DELETE FROM other.keyless", ""},
	{"DDL", "CREATE TABLE shaped (id int PRIMARY KEY, x text)", "ALTER TABLE shaped ADD y int; ALTER TABLE shaped " +
		"RENAME x TO z; ALTER TABLE shaped DROP y; UPDATE shaped SET z = 'a'; ALTER TABLE shaped ALTER z TYPE " +
		"varchar(10); DROP TABLE shaped", ""},
}

// programsGoOnWriting lets a program write to every kind of relation before a source is set up, after that, and after
// its removal.
func programsGoOnWriting(w *world) {
	write := func(when string) {
		for _, r := range relations {
			if err := w.connect().Exec(w.Context(), r.program).Close(); err != nil &&
				!(when == "removed" && r.name == "DDL") {
				w.Errorf("%s: %s: %v", when, r.name, err)
			}
		}
	}
	var left []string
	for _, r := range relations {
		w.exec(r.schema)
		if r.left != "" {
			left = append(left, "public."+r.left)
		}
	}
	s := w.open(w.settings("*"), nil)
	write("set up")
	var skipped []string
	for _, one := range s.Progress().Skipped {
		skipped = append(skipped, one.Of)
	}
	slices.Sort(left)
	if slices.Sort(skipped); !slices.Equal(skipped, left) {
		w.Errorf("left out: %q, want %q", skipped, left)
	}
	if got := w.query("SELECT string_agg(DISTINCT tablename, ',' ORDER BY tablename) FROM " +
		"pg_publication_tables"); !strings.Contains(got, "good_child") || strings.Contains(got, "keyless") {
		w.Errorf("published: %s", got)
	}
	s.Close()
	if err := s.LifecycleOnDeleted(s.Ctx, w.settings("*")); err != nil {
		w.Fatal(err)
	}
	write("removed")
}

// keyless names tables that their programs could no longer update.
func keyless(w *world) {
	w.exec("CREATE TABLE good (id int PRIMARY KEY); CREATE TABLE bad (id int)")
	for _, tables := range []string{"bad", "good,bad"} {
		if err := w.newSource(w.db+":source").TryOpen(w.settings(tables), nil); err == nil ||
			!strings.Contains(err.Error(), "cannot read changes of table public.bad: ") ||
			!strings.Contains(err.Error(), "ALTER TABLE bad REPLICA IDENTITY FULL") {
			w.Errorf("%s: got %v", tables, err)
		}
		w.exec("INSERT INTO bad VALUES (1); UPDATE bad SET id = 2")
	}
	w.exec("ALTER TABLE bad REPLICA IDENTITY FULL")
	s := w.open(w.settings("good,bad"), nil)
	s.Want(`snapshot bad null to {"id":2}`, `snapshot bad null to {"id":2}`)
	// A named table that loses its key ends the source, and remains updatable.
	w.exec("ALTER TABLE good DROP CONSTRAINT good_pkey; INSERT INTO good VALUES (1)")
	if err := s.Fails(); !strings.Contains(err.Error(), "cannot read changes of table public.good: ") {
		w.Errorf("got %v", err)
	}
	w.exec("UPDATE good SET id = 2; UPDATE bad SET id = 3")
}

// keyDropped drops the key of a table of a pattern while the source runs, and adds another one: its rows are read
// again.
func keyDropped(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); " +
		"INSERT INTO b VALUES (1); " +
		"CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id)")
	s := w.open(w.settings("*"), nil)
	s.Want(`snapshot a {"id":1} to {"id":1}`, `snapshot b {"id":1} to {"id":1}`)
	s.streaming()
	out := func(want string) {
		w.Helper()
		wait.For(w, "left out: "+want, func() bool {
			var names []string
			for _, one := range s.Progress().Skipped {
				names = append(names, one.Of)
			}
			slices.Sort(names)
			return fmt.Sprint(names) == want
		})
	}
	w.exec("ALTER TABLE b DROP CONSTRAINT b_pkey; CREATE TABLE late (id int); INSERT INTO late VALUES (1)")
	w.exec("CREATE TABLE p_1 PARTITION OF p DEFAULT; ALTER TABLE p_1 REPLICA IDENTITY NOTHING")
	out("[public.b public.late public.p]")
	w.exec("UPDATE b SET id = 2; UPDATE late SET id = 3; INSERT INTO p VALUES (1); UPDATE p SET id = 2; " +
		"INSERT INTO a VALUES (2)")
	s.Want(`create a {"id":2} to {"id":2}`)
	w.exec("ALTER TABLE b ADD PRIMARY KEY (id); ALTER TABLE p_1 REPLICA IDENTITY DEFAULT")
	s.Want(`snapshot b {"id":2} to {"id":2}`, `snapshot p {"id":2} to {"id":2}`)
	out("[public.late]")
	w.exec("UPDATE b SET id = 3")
	s.Want(`delete b {"id":2} from {"id":2}`, `create b {"id":3} to {"id":3}`)
}

// upgraded has a publication of an earlier version, with tables whose programs it breaks.
func upgraded(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE bad (id int); INSERT INTO bad VALUES (1)")
	s := w.open(w.settings("*"), nil)
	s.streaming()
	s.Close()
	w.exec("DO $$ BEGIN EXECUTE format('ALTER PUBLICATION %I ADD TABLE bad', (SELECT pubname FROM " +
		"pg_publication)); END $$")
	w.open(w.settings("*"), nil).streaming()
	w.exec("UPDATE bad SET id = 2")
}

// inherited reads the rows of a table and its child tables once, as rows of one table.
func inherited(w *world) {
	w.exec("CREATE TABLE events (id int PRIMARY KEY); CREATE TABLE events_1 (PRIMARY KEY (id)) INHERITS (events); " +
		"CREATE TABLE events_2 (x text, PRIMARY KEY (id)) INHERITS (events_1); " +
		"INSERT INTO events VALUES (1); INSERT INTO events_1 VALUES (2); INSERT INTO events_2 VALUES (3, 'x')")
	s := w.open(w.settings("events"), nil)
	s.Want(`snapshot events {"id":1} to {"id":1}`, `snapshot events {"id":2} to {"id":2}`,
		`snapshot events {"id":3} to {"id":3,"x":"x"}`)
	s.streaming()
	w.exec("INSERT INTO events_1 VALUES (4); UPDATE events SET id = 5 WHERE id = 3")
	s.Want(`create events {"id":4} to {"id":4}`, `delete events {"id":3} from {"id":3}`,
		`create events {"id":5} to {"id":5,"x":"x"}`)
	// The rows of a new table may come before changes of the same time, so those are read first.
	w.exec("CREATE TABLE events_3 (PRIMARY KEY (id)) INHERITS (events); INSERT INTO events_3 VALUES (6)")
	s.Want(`snapshot events {"id":6} to {"id":6}`)
}
