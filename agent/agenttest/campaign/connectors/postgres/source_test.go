package postgres_test

import (
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSource runs against every PostgreSQL of dirs.
func TestSource(t *testing.T) {
	load.Parallel(t, load.Server)
	for _, bin := range dirs(t) {
		t.Run(strings.ReplaceAll(strings.Trim(bin, "/"), "/", "-"), func(t *testing.T) {
			s := server.StartPostgres(t, bin)
			// Slots are created when no transaction is open in any database, so tests with open transactions come
			// before the others.
			for name, test := range map[string]func(*world){"InterleavedCommits": interleavedCommits,
				"SlotWaits": slotWaits, "Invalidated": invalidated} {
				t.Run(name, func(t *testing.T) { test(in(t, s)) })
			}
			for name, test := range map[string]func(*world){
				"SnapshotAndChanges": snapshotAndChanges,
				"Toast":              toast, "Keys": keys, "Types": types, "TablesAdded": tablesAdded,
				"AllTables": allTables, "Patterns": patterns,
				"ReadAgain": readAgain, "TwoPipelines": twoPipelines, "Heartbeat": heartbeat, "Lost": lost,
				"MaxLag": maxLag, "ConduitPositions": conduitPositions, "ResumeSnapshot": resumeSnapshot,
				"Lifecycle": lifecycle, "Hidden": hidden, "Reconnect": reconnect, "KeyChange": keyChange,
				"Confirms": confirms, "Rights": rights,
				"Failover": failover, "AnotherServer": anotherServer, "ResumeChanges": resumeChanges, "Never": never,
				"ProgramsGoOnWriting": programsGoOnWriting, "Keyless": keyless, "KeyDropped": keyDropped,
				"Upgraded": upgraded, "Inherited": inherited, "IncompleteRows": incompleteRows,
				"IdentityIndex": identityIndex, "RowSecurity": rowSecurity, "Unlogged": unlogged, "Kinds": kinds,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(in(t, s))
				})
			}
		})
	}
}

func snapshotAndChanges(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (-1, 'a'), (0, E'tab\\there'), (7, NULL)")
	s := w.open(w.settings("t"), nil)
	rows := s.Want(`snapshot t {"id":-1} to {"id":-1,"x":"a"}`, `snapshot t {"id":0} to {"id":0,"x":"tab\there"}`,
		`snapshot t {"id":7} to {"id":7,"x":null}`)
	w.exec("INSERT INTO t VALUES (8, 'b'); UPDATE t SET x = 'c' WHERE id = 8; DELETE FROM t WHERE id = 7")
	changes := s.Want(`create t {"id":8} to {"id":8,"x":"b"}`, `update t {"id":8} to {"id":8,"x":"c"}`,
		`delete t {"id":7} from {"id":7}`)
	for _, r := range changes {
		if r.Metadata.Get("postgres.schema") != "public" || r.Metadata.Get("postgres.lsn") == "" ||
			r.Metadata.Get(record.KeyCreatedAt) == "" ||
			r.Metadata.Get("opencdc.payload.schema.subject") != "t_payload" ||
			r.Metadata.Get("opencdc.key.schema.subject") != "t_key" {
			w.Errorf("metadata is %v", r.Metadata)
		}
	}
	s.Settle(append(rows, changes[:2]...)...)
	s.Close()
	s = w.open(w.settings("t"), changes[1].Position)
	s.Want(`delete t {"id":7} from {"id":7}`)
}

// interleavedCommits begins a transaction before another one and commits it after that one: its changes have the lower
// places in the log, and still arrive after a restart in between.
func interleavedCommits(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.settings("t")
	s := w.open(settings, nil).streaming()
	early := w.connect()
	if err := early.Exec(w.Context(), "BEGIN; INSERT INTO t VALUES (1)").Close(); err != nil {
		w.Fatal(err)
	}
	w.exec("INSERT INTO t VALUES (2)")
	second := s.Want(`create t {"id":2} to {"id":2}`)
	s.Settle(second...)
	wait.For(w, "the second transaction is confirmed", func() bool {
		return w.query(fmt.Sprintf("SELECT confirmed_flush_lsn > '%s' FROM pg_replication_slots WHERE slot_name = '%s'",
			second[0].Metadata.Get("postgres.lsn"), w.db)) == "t"
	})
	s.Close()
	if err := early.Exec(w.Context(), "INSERT INTO t VALUES (3); COMMIT").Close(); err != nil {
		w.Fatal(err)
	}
	s = w.open(settings, second[0].Position)
	s.Want(`create t {"id":1} to {"id":1}`, `create t {"id":3} to {"id":3}`)
}

// toast updates a row without changing a large value, which the server then does not send.
func toast(w *world) {
	w.exec(`CREATE TABLE t (id int PRIMARY KEY, n int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL`)
	s := w.open(w.settings("t"), nil).streaming()
	w.exec(`INSERT INTO t VALUES (1, 1, repeat('x', 10000))`)
	s.Next(1)
	w.exec(`UPDATE t SET n = 2`)
	got := s.Want(`update t {"id":1} to {"id":1,"n":2}`)
	whole := got[0].Metadata.Get("opencdc.payload.schema.version")
	w.exec(`UPDATE t SET big = NULL`)
	got = s.Want(`update t {"id":1} to {"big":null,"id":1,"n":2}`)
	if whole == got[0].Metadata.Get("opencdc.payload.schema.version") {
		w.Error("a record without the large column has the schema of one with it: encoded, it would be null")
	}
	w.exec(`ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET big = repeat('y', 10000); UPDATE t SET n = 3`)
	s.Next(1)
	if after, _ := s.Next(1)[0].After.Structured(); len(fmt.Sprint(after["big"])) != 10000 {
		w.Errorf("with a full replica identity the large value is %.20v", after["big"])
	}
}

func keys(w *world) {
	w.exec(`CREATE TABLE a (u uuid PRIMARY KEY, n int); CREATE TABLE b (x text, y int, z int, PRIMARY KEY (y, x));
		CREATE TABLE c (n int);
		INSERT INTO a VALUES ('6b86b273-ff34-4ce1-9d6b-804eff5a3f57', 1); INSERT INTO b VALUES (E'q"\\', 2, 3), ('q', 1, 3);
		INSERT INTO c VALUES (1), (1);
		ALTER TABLE c REPLICA IDENTITY FULL`)
	s := w.open(w.settings("a,b,c"), nil)
	s.Want(`snapshot a {"u":"6b86b273-ff34-4ce1-9d6b-804eff5a3f57"} to `+
		`{"n":1,"u":"6b86b273-ff34-4ce1-9d6b-804eff5a3f57"}`,
		`snapshot b {"x":"q","y":1} to {"x":"q","y":1,"z":3}`,
		`snapshot b {"x":"q\"\\","y":2} to {"x":"q\"\\","y":2,"z":3}`,
		`snapshot c null to {"n":1}`, `snapshot c null to {"n":1}`)
	w.exec("DELETE FROM b WHERE y = 1; UPDATE c SET n = 2")
	s.Want(`delete b {"x":"q","y":1} from {"x":"q","y":1}`, `update c null from {"n":1} to {"n":2}`,
		`update c null from {"n":1} to {"n":2}`)
}

// keyChange changes the key of a row: the old key is deleted, so that nothing stale is left downstream.
func keyChange(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text)")
	s := w.open(w.settings("t"), nil).streaming()
	w.exec("INSERT INTO t VALUES (1, 'a'); UPDATE t SET id = 2")
	got := s.Want(`create t {"id":1} to {"id":1,"x":"a"}`, `delete t {"id":1} from {"id":1}`,
		`create t {"id":2} to {"id":2,"x":"a"}`)
	s.Close()
	s = w.open(w.settings("t"), got[1].Position)
	s.Want(`create t {"id":2} to {"id":2,"x":"a"}`)
}

// incompleteRows changes the keys of rows whose large values the server does not send: the records have these values
// nevertheless.
func incompleteRows(w *world) {
	w.exec(`CREATE TABLE t (id int PRIMARY KEY, n int, big text, j jsonb, a text[]);
		ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER j SET STORAGE EXTERNAL, ALTER a SET STORAGE EXTERNAL;
		CREATE TABLE k (id int, name text, n int, PRIMARY KEY (id, name)); ALTER TABLE k ALTER name SET STORAGE EXTERNAL`)
	s := w.open(w.settings("t,k"), nil).streaming()
	w.exec(`INSERT INTO t VALUES (1, 1, repeat('x', 9000), jsonb_build_object('b', repeat('y', 9000)), ` +
		`ARRAY[repeat('z', 9000), NULL]); INSERT INTO k VALUES (1, repeat('n', 2500), 1)`)
	whole := s.Next(2)
	check := func(got record.Record, as record.Record, changed map[string]any) {
		w.Helper()
		want, _ := as.After.Structured()
		want = maps.Clone(want)
		maps.Copy(want, changed)
		if after, _ := got.After.Structured(); fmt.Sprint(after) != fmt.Sprint(want) {
			w.Errorf("the row is %.200v, want %.200v", after, want)
		}
	}
	w.exec("UPDATE t SET id = 2, n = 2")
	s.Next(1)
	check(s.Next(1)[0], whole[0], map[string]any{"id": int32(2), "n": int32(2)})
	w.exec("UPDATE k SET n = 2")
	got := s.Next(1)[0]
	check(got, whole[1], map[string]any{"n": int32(2)})
	if fields, _ := got.Key.Structured(); fmt.Sprint(fields["name"]) != strings.Repeat("n", 2500) {
		key, _ := got.Key.MarshalJSON()
		w.Errorf("the key is %.100s", key)
	}
	w.exec("UPDATE k SET id = 2")
	s.Next(1)
	check(s.Next(1)[0], whole[1], map[string]any{"id": int32(2), "n": int32(2)})

	// The row changes again before the source reads it.
	w.exec(`BEGIN; UPDATE t SET id = 3; UPDATE t SET id = 4; UPDATE t SET big = 'small'; COMMIT`)
	got4 := s.Next(4)
	for i, op := range []string{`delete {"id":2}`, `delete {"id":3}`, `create {"id":4}`, `update {"id":4}`} {
		key, _ := got4[i].Key.MarshalJSON()
		if have := fmt.Sprintf("%s %s", got4[i].Operation, key); have != op {
			w.Errorf("record %d is %s, want %s", i, have, op)
		}
	}
	check(got4[2], whole[0], map[string]any{"id": int32(4), "n": int32(2), "big": "small"})

	// The columns are gone: an error, which the source resolves by reading the table again.
	s.Settle(got4[3])
	s.Close()
	w.exec("ALTER TABLE t ALTER j TYPE jsonb; UPDATE t SET id = 5; ALTER TABLE t DROP j")
	before := w.settings("t,k")
	s = w.open(before, got4[3].Position)
	if err := s.Fails(); !strings.Contains(err.Error(), "no longer has its "+
		"column") || !strings.Contains(err.Error(), "add public.t/1") {
		w.Fatalf("got %v", err)
	}
	s.Close()
	after := w.settings("t,k", "snapshot.again", "public.t/1")
	s = w.newSource(w.db + ":source")
	if err := s.LifecycleOnUpdated(s.Ctx, before, after); err != nil {
		w.Fatal(err)
	}
	if err := s.TryOpen(after, got4[3].Position); err != nil {
		w.Fatal(err)
	}
	if got := s.Next(1)[0]; got.Operation != record.OperationSnapshot {
		w.Errorf("got %v", got)
	}
}

// identityIndex has tables whose replica identity is an index other than the primary key: for a deleted row the server
// sends only the columns of the index, so they are the key of all records.
func identityIndex(w *world) {
	w.exec(`CREATE TABLE t (id int PRIMARY KEY, mail text NOT NULL); CREATE UNIQUE INDEX t_mail ON t (mail);
		ALTER TABLE t REPLICA IDENTITY USING INDEX t_mail;
		INSERT INTO t VALUES (1, 'a')`)
	s := w.open(w.settings("t"), nil)
	s.Want(`snapshot t {"mail":"a"} to {"id":1,"mail":"a"}`)
	w.exec("UPDATE t SET id = 2; UPDATE t SET mail = 'b'; DELETE FROM t")
	s.Want(`update t {"mail":"a"} to {"id":2,"mail":"a"}`, `delete t {"mail":"a"} from {"mail":"a"}`,
		`create t {"mail":"b"} to {"id":2,"mail":"b"}`, `delete t {"mail":"b"} from {"mail":"b"}`)
}

// unlogged adds and removes rows without logging changes of rows: the source warns each time.
func unlogged(w *world) {
	w.exec(`CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY);
		CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10); CREATE TABLE p_2 (id int PRIMARY KEY);
		INSERT INTO p_2 VALUES (11)`)
	w.exec(fmt.Sprintf("CREATE PUBLICATION %s WITH (publish = 'insert, update')", w.db))
	s := w.newSource(w.db + ":source")
	var log wait.Buffer
	w.Cleanup(func() {
		if w.Failed() {
			w.Log(log.String())
		}
	})
	s.Ctx = sdk.WithEnv(s.Ctx,
		&sdk.Env{ConnectorID: w.db + ":source",
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err := s.TryOpen(w.settings("t,gon*,p"), nil); err != nil {
		w.Fatal(err)
	}
	s.streaming()
	says := func(words string) {
		w.Helper()
		wait.For(w, words, func() bool { return strings.Contains(log.String(), words) })
	}
	says("does not publish delete, truncate")
	if !strings.Contains(s.Progress().Warning, "does not publish delete, truncate") {
		w.Errorf("the status is %q", s.Progress().Warning)
	}
	w.exec(fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')", w.db))
	wait.For(w, "no warning", func() bool { return s.Progress().Warning == "" })
	s.Close()
	w.exec(fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert, update, "+
		"delete')", w.db)) // as earlier versions created it
	s = w.newSource(w.db + ":source")
	s.Ctx = sdk.WithEnv(s.Ctx,
		&sdk.Env{ConnectorID: w.db + ":source",
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err := s.TryOpen(w.settings("t,gon*,p"), nil); err != nil {
		w.Fatal(err)
	}
	s.streaming()
	w.exec("TRUNCATE t")
	says("table=public.t lsn=")
	w.exec("CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (21); ALTER TABLE p " +
		"ATTACH PARTITION p_2 FOR VALUES FROM (10) TO (20); ALTER TABLE p DETACH PARTITION p_1; DROP TABLE gone")
	says("partition public.p_2 was attached to table public.p")
	says("partition public.p_1 of table public.p was dropped or detached")
	says("table public.gone was dropped")
	if strings.Contains(log.String(), "p_3") {
		w.Errorf("a new partition is warned of:\n%s", log.String())
	}
}

// rowSecurity hides rows from the role with a policy. This is an error, because the changes of these rows still arrive.
func rowSecurity(w *world) {
	role := w.db + "_ruled"
	w.exec(fmt.Sprintf(`CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2);
		ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id = 1);
		CREATE ROLE %s LOGIN REPLICATION; GRANT SELECT ON t TO %s; CREATE PUBLICATION %s FOR TABLE t`, role, role, w.db))
	s := w.open(w.settings("t", "url", strings.Replace(w.url(), "postgres@", role+"@", 1)), nil)
	if err := s.Fails(); !strings.Contains(err.Error(), "BYPASSRLS") {
		w.Errorf("got %v", err)
	}
}

// types has a column of every type, and reads the same values from a snapshot as from a change.
func types(w *world) {
	w.exec(`CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
		CREATE TYPE pair AS (a int, b text);
		CREATE TABLE t (id bigint PRIMARY KEY, b bool, i2 smallint, i4 int, f4 real, f8 double precision, n numeric, m money,
		c char(3), v varchar(5), ba bytea,
			ts timestamp, tz timestamptz, d date, ti time, iv interval, inf timestamptz, u uuid, j json, jb jsonb, x xml,
			ip inet, mac macaddr, bits bit varying,
			a int[], e mood, dom positive, p pair, r int4range, pt point, tsv tsvector,
			g int GENERATED ALWAYS AS (i4 * 2) STORED, nul text);
		CREATE TABLE src AS SELECT 1::bigint AS id WHERE false;
		INSERT INTO t VALUES (1, true, -2, 3, 1.5, 2.25, 12345678901234567890.123, 1.5, 'ab', 'vc', '\x00ff',
		'2026-01-02 03:04:05.678', '2026-01-02 03:04:05+02', '2026-01-02',
			'03:04:05', '1 day 2 hours', 'infinity', '6b86b273-ff34-4ce1-9d6b-804eff5a3f57', '{"a": 1}', '{"b":2}', '<x/>',
			'10.0.0.1', '08:00:2b:01:02:03', B'101',
			'{1,NULL}', 'ok', 4, '(1,z)', '[1,5)', '(1,2)', 'a b')`)
	s := w.open(w.settings("t"), nil)
	rows := s.Next(1)
	w.exec("UPDATE t SET nul = NULL")
	changes := s.Next(1)
	snapshot, _ := rows[0].After.MarshalJSON()
	change, _ := changes[0].After.MarshalJSON()
	if string(snapshot) != string(change) {
		w.Errorf("a snapshot reads\n%s\na change\n%s", snapshot, change)
	}
	const want = `{"a":"{1,NULL}","b":true,"ba":"AP8=","bits":"101","c":"ab ` +
		`","d":"2026-01-02T00:00:00Z","dom":"4","e":"ok","f4":1.5,"f8":2.25,"i2":-2,"i4":3,"id":1,` +
		`"inf":"infinity","ip":"10.0.0.1","iv":"1 day ` +
		`02:00:00","j":{"a":1},"jb":{"b":2},"m":"$1.50","mac":"08:00:2b:01:02:03","n":"12345678901234567890.123",` +
		`"nul":null,"p":"(1,z)","pt":"(1,2)","r":"[1,5)","ti":"03:04:05","ts":"2026-01-02T03:04:05.678Z","tsv":"'a' ` +
		`'b'","tz":"2026-01-02T01:04:05Z","u":"6b86b273-ff34-4ce1-9d6b-804eff5a3f57","v":"vc","x":"\u003cx/\u003e"}`
	if got := strings.ReplaceAll(strings.ReplaceAll(string(snapshot), "<", `\u003c`), ">", `\u003e`); got != want {
		w.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// tablesAdded adds a table to the settings of an existing source: it reads the rows of the table, also when it is
// closed in between.
func tablesAdded(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE b (id int PRIMARY KEY); " +
		"INSERT INTO b VALUES (1), (2)")
	s := w.open(w.settings("a"), nil)
	s.Settle(s.Next(1)...)
	w.exec("INSERT INTO a VALUES (2)")
	last := s.Want(`create a {"id":2} to {"id":2}`)
	s.Settle(last...)
	s.Close()
	w.exec("INSERT INTO a VALUES (3)")
	s = w.open(w.settings("a,b"), last[0].Position) // nothing is read
	s.Close()
	s = w.open(w.settings("a,b"), last[0].Position)
	rows := s.Want(`snapshot b {"id":1} to {"id":1}`, `snapshot b {"id":2} to {"id":2}`)
	s.Close()
	s = w.open(w.settings("a,b"), rows[0].Position)
	rows = s.Want(`snapshot b {"id":2} to {"id":2}`)
	change := s.Want(`create a {"id":3} to {"id":3}`)
	w.exec("INSERT INTO b VALUES (3)")
	s.Want(`create b {"id":3} to {"id":3}`)
	s.Settle(rows[0], change[0])
	wait.For(w, "nothing is pending", func() bool {
		return !strings.Contains(w.query("SELECT obj_description(oid, 'pg_publication') FROM pg_publication"),
			"pending")
	})
}

// allTables creates a table while a source of all tables runs.
func allTables(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
	s := w.open(w.settings("*"), nil)
	s.Want(`snapshot a {"id":1} to {"id":1}`)
	w.exec("CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late VALUES (1)")
	s.Want(`snapshot late {"id":1} to {"id":1}`)
	w.exec("INSERT INTO late VALUES (2); INSERT INTO a VALUES (2)")
	s.Want(`create late {"id":2} to {"id":2}`, `create a {"id":2} to {"id":2}`)
}

// patterns has names of tables with *. One of the tables is created while the source runs.
func patterns(w *world) {
	w.exec("CREATE SCHEMA s; CREATE TABLE a_1 (id int PRIMARY KEY); CREATE TABLE ab1 (id int PRIMARY KEY); CREATE " +
		"TABLE s.x_end (id int PRIMARY KEY); CREATE TABLE s.y (id int PRIMARY KEY); " +
		"CREATE UNLOGGED TABLE a_u (id int); INSERT INTO a_1 VALUES (1); INSERT INTO ab1 VALUES (1); INSERT INTO " +
		"s.x_end VALUES (1); INSERT INTO s.y VALUES (1)")
	s := w.open(w.settings("a_*,s.*_end,none*"), nil)
	s.Want(`snapshot a_1 {"id":1} to {"id":1}`, `snapshot x_end {"id":1} to {"id":1}`)
	w.exec("CREATE TABLE a_2 (id int PRIMARY KEY); INSERT INTO a_2 VALUES (1); INSERT INTO ab1 VALUES (2)")
	s.Want(`snapshot a_2 {"id":1} to {"id":1}`)
}

// readAgain reads one table again, and does not read the other one.
func readAgain(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE b (id int PRIMARY KEY); " +
		"INSERT INTO b VALUES (1)")
	before := w.settings("a,b")
	s := w.open(before, nil)
	s.Settle(s.Next(2)...)
	w.exec("INSERT INTO a VALUES (2)")
	last := s.Next(1)
	s.Settle(last...)
	s.Close()
	w.exec("INSERT INTO a VALUES (3); INSERT INTO b VALUES (2)") // the first is in the rows that are read again
	after := w.settings("a,b", "snapshot.again", "a/1")
	s = w.newSource(w.db + ":source")
	if err := s.LifecycleOnUpdated(s.Ctx, before, after); err != nil {
		w.Fatal(err)
	}
	if err := s.TryOpen(after, last[0].Position); err != nil {
		w.Fatal(err)
	}
	s.Want(`snapshot a {"id":1} to {"id":1}`, `snapshot a {"id":2} to {"id":2}`, `snapshot a {"id":3} to {"id":3}`,
		`create b {"id":2} to {"id":2}`)
	s.nothing(func() {
		w.exec("CREATE TABLE x (id int); ALTER TABLE a ADD m text; INSERT INTO a VALUES (9, 'marker')")
	})
}

func twoPipelines(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	w.open(w.settings("t"), nil)
	other := w.newSource("other:source")
	if err := other.TryOpen(w.settings("t"), nil); err == nil ||
		!strings.Contains(err.Error(), "belongs to connector "+w.db+":source") {
		w.Errorf("a second source with the same names opens: %v", err)
	}
	other = w.newSource("other:source")
	if err := other.TryOpen(w.settings("t", "logrepl.publicationName", w.db+"_other"), nil); err == nil ||
		!strings.Contains(err.Error(), "slot "+w.db+" belongs to connector") {
		w.Errorf("a second source with the same slot opens: %v", err)
	}
	wait.For(w, "the slot to be in use", func() bool {
		return w.query(fmt.Sprintf("SELECT active FROM pg_replication_slots WHERE slot_name = '%s'", w.db)) == "t"
	})
	// The same connector in another agent, or one whose publication has no comment.
	same := w.newSource(w.db + ":source")
	err := same.TryOpen(w.settings("t"), nil)
	if err == nil {
		err = same.Fails()
	}
	if !strings.Contains(err.Error(), "in use by") || !strings.Contains(err.Error(), "logrepl.slotName") {
		w.Errorf("a slot in use is reported as: %v", err)
	}
}

// heartbeat writes to another table while the captured one is idle.
func heartbeat(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE busy (x text)")
	s := w.open(w.settings("t"), nil)
	w.exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
	at := w.query("SELECT pg_current_wal_lsn()")
	wait.For(w, "the slot has moved", func() bool {
		return w.query(fmt.Sprintf(
			"SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots WHERE slot_name = '%s'", at, w.db)) == "t"
	})
	wait.For(w, "lag is reported", func() bool {
		p := s.Progress()
		return p.Bytes != nil && *p.Bytes < 100_000 && p.Seconds != nil && *p.Seconds == 0
	})
}

// conduitPositions resumes from positions of Conduit's connector.
func conduitPositions(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3); CREATE TABLE u (id int PRIMARY " +
		"KEY); INSERT INTO u VALUES (1)")
	made := w.newSource(w.db + ":source")
	if err := made.LifecycleOnCreated(made.Ctx, w.settings("t,u")); err != nil {
		w.Fatal(err)
	}
	s := w.open(w.settings("t,u"), record.Position(`{"type":1,"snapshots":{"t":{"last_read":2,"snapshot_end":3}}}`))
	s.Want(`snapshot t {"id":3} to {"id":3}`, `snapshot u {"id":1} to {"id":1}`)
	at := w.query("SELECT pg_current_wal_insert_lsn()")
	w.exec("INSERT INTO t VALUES (4)")
	s.Want(`create t {"id":4} to {"id":4}`)
	s.Close()
	s = w.open(w.settings("t,u"), record.Position(`{"type":2,"last_lsn":"`+at+`"}`))
	s.Want(`create t {"id":4} to {"id":4}`)
	bad := w.newSource(w.db + ":source")
	if err := bad.TryOpen(w.settings("t"), record.Position(`{"type":2}`)); err == nil {
		w.Error("a position without a place is taken")
	}
}

// resumeSnapshot closes a source during its snapshot, and changes rows before it is reopened.
func resumeSnapshot(w *world) {
	w.exec("CREATE TABLE a (id int PRIMARY KEY, x int); INSERT INTO a SELECT i, 0 FROM generate_series(1, 2000) i; " +
		"CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1)")
	s := w.open(w.settings("a,b"), nil)
	wait.For(w, "progress is reported", func() bool {
		p := s.Progress()
		return len(p.Snapshots) > 0 && p.Snapshots[0].Of == "public.a"
	})
	rows := s.Next(1000)
	s.Settle(rows...)
	s.Close()
	w.exec("UPDATE a SET x = 1 WHERE id IN (500, 1500); DELETE FROM a WHERE id = 501")
	s = w.open(w.settings("a,b"), rows[999].Position)
	final := map[string]any{}
	for _, r := range append(rows, s.Next(1001)...) {
		after, _ := r.After.Structured()
		final[fmt.Sprint(r.Metadata.Get(record.KeyCollection), after["id"])] = after["x"]
	}
	for _, r := range s.Next(3) {
		key, _ := r.Key.Structured()
		after, _ := r.After.Structured()
		id := fmt.Sprint("a", key["id"])
		if final[id] = after["x"]; r.Operation == record.OperationDelete {
			delete(final, id)
		}
	}
	if _, there := final["a501"]; len(final) != 2000 || there || fmt.Sprint(final["a500"], final["a1500"]) != "1 1" {
		w.Errorf("%d rows, changed ones %v %v, the deleted one is there: %v", len(final), final["a500"], final["a1500"],
			there)
	}
}

// resumeChanges resumes after every change, also within a transaction and between the two halves of a change of a key.
func resumeChanges(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY)")
	settings := w.settings("t")
	s := w.open(settings, nil).streaming()
	w.exec("BEGIN; INSERT INTO t VALUES (1), (2), (3); UPDATE t SET id = 4 WHERE id = 3; DELETE " +
		"FROM t WHERE id = 1; COMMIT")
	w.exec("INSERT INTO t VALUES (5)")
	w.exec("BEGIN; INSERT INTO t VALUES (6); INSERT INTO t VALUES (7); COMMIT")
	lines := []string{
		`create t {"id":1} to {"id":1}`, `create t {"id":2} to {"id":2}`, `create t {"id":3} to {"id":3}`,
		`delete t {"id":3} from {"id":3}`, `create t {"id":4} to {"id":4}`,
		`delete t {"id":1} from {"id":1}`, `create t {"id":5} to {"id":5}`, `create t {"id":6} to {"id":6}`,
		`create t {"id":7} to {"id":7}`,
	}
	got := s.Want(lines...)
	s.Close()
	w.exec("INSERT INTO t VALUES (8)")
	lines = append(lines, `create t {"id":8} to {"id":8}`)
	for i := range got {
		s := w.open(settings, got[i].Position)
		s.Want(lines[i+1:]...)
		s.Close()
	}
}

// hidden makes changes between the creation of the slot and the snapshot: they appear once, in the rows of the
// snapshot.
func hidden(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, m text)")
	s := w.newSource(w.db + ":source")
	if err := s.LifecycleOnCreated(s.Ctx, w.settings("t")); err != nil {
		w.Fatal(err)
	}
	w.exec("INSERT INTO t VALUES (1); UPDATE t SET m = 'x'")
	open := w.connect()
	if err := open.Exec(w.Context(), "BEGIN; INSERT INTO t VALUES (2)").Close(); err != nil {
		w.Fatal(err)
	}
	if err := s.TryOpen(w.settings("t"), nil); err != nil {
		w.Fatal(err)
	}
	rows := s.Want(`snapshot t {"id":1} to {"id":1,"m":"x"}`)
	if err := open.Exec(w.Context(), "COMMIT").Close(); err != nil {
		w.Fatal(err)
	}
	s.Want(`create t {"id":2} to {"id":2,"m":null}`)
	s.Close()
	s = w.open(w.settings("t"), rows[0].Position)
	s.Want(`create t {"id":2} to {"id":2,"m":null}`)
}

// confirms checks that only acknowledged positions are confirmed to the server.
func confirms(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	s := w.open(w.settings("t"), nil)
	at := func() string {
		return w.query(fmt.Sprintf("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '%s'", w.db))
	}
	begin := at()
	rows := s.streaming().Next(1)
	w.exec("INSERT INTO t VALUES (2)")
	first := s.Next(1)
	w.exec("INSERT INTO t VALUES (3)")
	second := s.Next(1)
	beats := func() {
		began := time.Now()
		wait.For(w, "some statuses were sent", func() bool {
			return s.Progress().At.After(began.Add(600 * time.Millisecond))
		})
	}
	beats()
	if got := at(); got != begin {
		w.Errorf("nothing is acknowledged, and confirmed is %s instead of %s", got, begin)
	}
	s.Settle(first...) // the row is not settled
	beats()
	if got := at(); got != begin {
		w.Errorf("a row of the snapshot is not acknowledged, and confirmed is %s instead of %s", got, begin)
	}
	s.Settle(rows...)
	between := func() bool {
		return w.query(fmt.Sprintf("SELECT '%[1]s'::pg_lsn > '%[2]s' AND '%[1]s'::pg_lsn <= '%[3]s'", at(),
			first[0].Metadata.Get("postgres.lsn"), second[0].Metadata.Get("postgres.lsn"))) == "t"
	}
	wait.For(w, "the first change is confirmed", between)
	beats()
	if !between() {
		w.Errorf("the second change is not acknowledged, and confirmed is %s", at())
	}
	s.Settle(second...)
	wait.For(w, "all is confirmed", func() bool {
		return w.query(fmt.Sprintf("SELECT '%s'::pg_lsn > '%s'", at(), second[0].Metadata.Get("postgres.lsn"))) == "t"
	})
}

func lifecycle(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
	before := w.settings("t,u")
	s := w.newSource(w.db + ":source")
	if err := s.LifecycleOnCreated(s.Ctx, before); err != nil {
		w.Fatal(err)
	}
	if err := s.TryOpen(before, nil); err != nil {
		w.Fatal(err)
	}
	s.streaming()
	w.exec("INSERT INTO t VALUES (1)")
	last := s.Next(1)
	s.Settle(last...)
	s.Close()
	w.exec("INSERT INTO t VALUES (2)")
	after := w.settings("t", "logrepl.slotName", w.db+"_2", "logrepl.publicationName", w.db)
	s = w.newSource(w.db + ":source")
	if err := s.LifecycleOnUpdated(s.Ctx, before, after); err != nil {
		w.Fatal(err)
	}
	if got := w.query("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"); got != w.db+
		"_2" {
		w.Errorf("slots are %s", got)
	}
	if got := w.query("SELECT tablename FROM pg_publication_tables"); got != "t" {
		w.Errorf("tables of the publication are %s", got)
	}
	if err := s.TryOpen(after, last[0].Position); err != nil {
		w.Fatal(err)
	}
	s.Want(`create t {"id":2} to {"id":2}`)
	// It is deleted while its session still holds the slot.
	d := w.newSource(w.db + ":source")
	if err := d.LifecycleOnDeleted(d.Ctx, after); err != nil {
		w.Fatal(err)
	}
	if got := w.query("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") +
		w.query("SELECT count(*) FROM pg_publication"); got != "00" {
		w.Errorf("slots and publications left: %s", got)
	}
	if err := d.LifecycleOnDeleted(d.Ctx, after); err != nil {
		w.Errorf("deleting again: %v", err)
	}
}

// never reads changes alone, from the creation of the slot on, without schemas, and keeps slot and publication when it
// is deleted.
func never(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	settings := w.settings("t", "snapshotMode", "never", "logrepl.withAvroSchema", "false", "logrepl.autoCleanup",
		"false", "cdcMode", "logrepl")
	s := w.newSource(w.db + ":source")
	if err := s.LifecycleOnCreated(s.Ctx, settings); err != nil {
		w.Fatal(err)
	}
	w.exec("INSERT INTO t VALUES (2)") // before the source is opened for the first time
	if err := s.TryOpen(settings, nil); err != nil {
		w.Fatal(err)
	}
	got := s.Want(`create t {"id":2} to {"id":2}`)
	if md := got[0].Metadata; md.Get("opencdc.payload.schema.subject") != "" ||
		md.Get("opencdc.key.schema.subject") != "" {
		w.Errorf("metadata is %v", md)
	}
	s.Close()
	if err := s.LifecycleOnDeleted(s.Ctx, settings); err != nil {
		w.Fatal(err)
	}
	if got := w.query("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") +
		w.query("SELECT count(*) FROM pg_publication"); got != "11" {
		w.Errorf("slots and publications left: %s", got)
	}
}

// reconnect cuts the connection: the source resumes without a restart, and repeats nothing.
func reconnect(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text)")
	proxy := network.NewProxy(w.T, w.server.Addr)
	settings := w.settings("t", "url", strings.Replace(w.url(), w.server.Addr, proxy.Addr(), 1))
	s := w.open(settings, nil).streaming()
	next := 1
	rounds := func(n int) {
		w.Helper()
		w.exec(fmt.Sprintf("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(%d, %d) i", next, next+n-1))
		for _, r := range s.Next(n) {
			if after, _ := r.After.Structured(); fmt.Sprint(after["id"]) != fmt.Sprint(next) {
				w.Fatalf("got row %v, want %d", after["id"], next)
			}
			next++
		}
	}
	rounds(10)
	for range 5 {
		w.exec(fmt.Sprintf("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(%d, %d) i", next, next+1999))
		proxy.Cut() // possibly within a transaction
		for _, r := range s.Next(2000) {
			if after, _ := r.After.Structured(); fmt.Sprint(after["id"]) != fmt.Sprint(next) {
				w.Fatalf("got row %v, want %d", after["id"], next)
			}
			next++
		}
	}
	proxy.Hold(true)
	wait.For(w, "it is known that the connection is lost", func() bool {
		return strings.Contains(s.Progress().Warning, "not connected")
	})
	proxy.Cut()
	proxy.Heal()
	rounds(10)
	wait.For(w, "it is known that the connection is there", func() bool { return s.Progress().Warning == "" })
}

// rights uses a role without a necessary privilege: the error names the privilege.
func rights(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY); DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN; GRANT USAGE ON " +
		"SCHEMA public TO weak")
	s := w.newSource(w.db + ":source")
	settings := w.settings("t", "url", strings.Replace(w.url(), "postgres@", "weak@", 1))
	err := s.TryOpen(settings, nil)
	if err == nil || !strings.Contains(err.Error(),
		"the role must own tables public.t and have the privilege CREATE on the database") {
		w.Errorf("without any right: %v", err)
	}
	w.exec(fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE t", w.db))
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(settings, nil); err == nil || !strings.Contains(err.Error(), "ALTER ROLE … REPLICATION") {
		w.Errorf("without REPLICATION: %v", err)
	}
	w.exec("ALTER ROLE weak REPLICATION; INSERT INTO t VALUES (1)")
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(settings, nil); err != nil {
		w.Fatal(err)
	}
	if err := s.Fails(); !strings.Contains(err.Error(), `GRANT SELECT ON "public"."t"`) {
		w.Errorf("without SELECT: %v", err)
	}
	w.exec("GRANT SELECT ON t TO weak")
	s.Close()
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(settings, nil); err != nil {
		w.Fatal(err)
	}
	s.Want(`snapshot t {"id":1} to {"id":1}`)
	s.Close()
	w.exec("CREATE TABLE u (id int PRIMARY KEY)")
	s = w.newSource(w.db + ":source")
	if err := s.TryOpen(w.settings("t,u", "url", settings["url"]), nil); err == nil ||
		!strings.Contains(err.Error(), `ALTER PUBLICATION "`) {
		w.Errorf("with a table that the publication does not have: %v", err)
	}
}

// TestContract runs the conformance tests of connectors.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	s := server.StartPostgres(t, "", "autovacuum=off")
	stopBackgroundWriter(t, s)
	plugintest.Run(t, plugintest.Target{
		Connector: postgres.Connector(),
		Source: func(tb testing.TB, n int) map[string]string {
			name := database(tb, s)
			run(tb, s, name, fmt.Sprintf("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT * FROM "+
				"generate_series(1, %d)", n))
			return map[string]string{"url": fmt.Sprintf("postgres://postgres@%s/%s", s.Addr, name), "tables": "t",
				"logrepl.slotName": name, "logrepl.publicationName": name}
		},
	})
}

// stopBackgroundWriter stops the background writer, which writes to the log of a server without any change: a snapshot
// that begins after such a write has other positions.
func stopBackgroundWriter(t *testing.T, s *server.Postgres) {
	t.Helper()
	conn, err := pg.Connect(t.Context(), fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	row, err := pg.Row(t.Context(), conn, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'")
	if err != nil || row == nil {
		t.Fatalf("there is no background writer: %v", err)
	}
	pid, err := strconv.Atoi(row[0])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The writer ends by itself once it notices that the server is gone.
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}
