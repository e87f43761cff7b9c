package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestDestination runs against every PostgreSQL of dirs.
func TestDestination(t *testing.T) {
	load.Parallel(t, load.Server)
	for _, bin := range dirs(t) {
		t.Run(strings.ReplaceAll(strings.Trim(bin, "/"), "/", "-"), func(t *testing.T) {
			s := server.StartPostgres(t, bin)
			for name, test := range map[string]func(*world){
				"Operations": operations, "Absent": absentColumns, "Refused": refusedRecords, "Values": writtenValues,
				"Once": once, "LostAnswer": lostAnswer, "Names": names, "RoundTrip": roundTrip,
				"Creates": creates, "CreatesTogether": createsTogether, "Mapping": mapping, "AddedColumns": addedColumns,
			} {
				t.Run(name, func(t *testing.T) { test(in(t, s)) })
			}
		})
	}
}

type destination struct {
	*world
	sdk.Destination
	ctx context.Context
}

func (w *world) destination(settings map[string]string) *destination {
	w.Helper()
	if settings["url"] == "" {
		settings["url"] = w.url()
	}
	d, ctx := plugintest.OpenDestination(w, postgres.Connector(), w.db+":destination", settings)
	return &destination{w, d, ctx}
}

func (d *destination) write(records ...record.Record) {
	d.Helper()
	if n, err := d.Write(d.ctx, records); n != len(records) || err != nil {
		d.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
}

type m = map[string]any

func operations(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x text)")
	d := w.destination(m2s())
	d.write(
		plugintest.Row(1, record.OperationSnapshot, m{"id": 1}, m{"id": 1, "x": "a"}),
		plugintest.Row(2, record.OperationCreate, m{"id": 2}, m{"id": 2, "x": "b\t\\\n\"'"}),
		plugintest.Row(3, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "c"}),
		plugintest.Row(4, record.OperationUpdate, m{"id": 1}, m{"id": 1, "x": "d"}),
		plugintest.Row(5, record.OperationDelete, m{"id": 2}, nil),
		plugintest.Row(6, record.OperationCreate, m{"id": 3}, nil), // nothing but its key
		plugintest.Row(7, record.OperationCreate, nil, m{"id": 4, "x": nil}),
		plugintest.Row(8, record.OperationCreate, nil, m{"id": 5, "x": "tab\tline\n\\"}),
	)
	if got := w.query(`SELECT id, coalesce(x, 'NULL') FROM t ORDER BY id`); got !=
		"1|d\n3|NULL\n4|NULL\n5|tab\tline\n\\" {
		w.Errorf("got %q", got)
	}
	raw := record.Record{Position: record.Position("9"), Operation: record.OperationCreate,
		Key: record.Raw([]byte("9")), After: record.Raw([]byte(`{"id": 9, "x": 12345678901234567890}`))}
	raw.Metadata.Set(record.KeyCollection, "t")
	d.write(raw)
	if got := w.query(`SELECT x FROM t WHERE id = 9`); got != "12345678901234567890" {
		w.Errorf("a number of a raw payload became %s", got)
	}
}

func m2s() map[string]string { return map[string]string{} }

// absentColumns updates rows with records that omit columns: omitted columns keep their values.
func absentColumns(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, n int, big text NOT NULL DEFAULT 'none'); INSERT INTO " +
		"t VALUES (1, 1, 'large')")
	w.destination(m2s()).write(
		plugintest.Row(1, record.OperationUpdate, m{"id": 1}, m{"id": 1, "n": 2}),
		plugintest.Row(2, record.OperationUpdate, m{"id": 2}, m{"id": 2, "n": 3}),
	)
	if got := w.query("SELECT * FROM t ORDER BY id"); got != "1|2|large\n2|3|none" {
		w.Errorf("got %q", got)
	}
}

// refusedRecords writes many records, including a refused one: the records before it are written, and the error names
// the problem.
func refusedRecords(w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, x varchar(3) CHECK (x <> 'bad'))")
	for name, c := range map[string]struct {
		bad  record.Record
		want string
	}{
		"check": {plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "x": "bad"}),
			"violates check constraint"},
		"too long":  {plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "x": "long"}), "too long"},
		"no number": {plugintest.Row(0, record.OperationCreate, m{"id": "x"}, m{"id": "x"}), "invalid input syntax"},
		"column": {plugintest.Row(0, record.OperationCreate, m{"id": 50}, m{"id": 50, "y": 1}),
			`it has no column "y"`},
		"no key": {plugintest.Row(0, record.OperationDelete, nil, nil), "the record has no key"},
		"constraint": {plugintest.Row(0, record.OperationCreate, m{"x": "k"}, m{"id": 50, "x": "k"}),
			"add a primary key or a unique index"},
		"not without": {plugintest.Row(0, record.OperationCreate, nil, m{"id": 1}), "duplicate key"},
	} {
		w.exec("TRUNCATE t")
		d := w.destination(m2s())
		var all []record.Record
		for i := range 40 {
			all = append(all, plugintest.Row(i, record.OperationCreate, m{"id": i}, m{"id": i, "x": "ok"}))
		}
		all[23] = c.bad
		n, err := d.Write(d.ctx, all)
		if n != 23 || err == nil || !strings.Contains(err.Error(), c.want) {
			w.Errorf("%s: wrote %d: %v", name, n, err)
		}
		var unavailable interface{ Lost() bool }
		if _, ok := err.(interface{ Lost() bool }); ok {
			w.Errorf("%s: the record is not to blame: %v", name, unavailable)
		}
		if got := w.query("SELECT count(*) FROM t"); got != "23" {
			w.Errorf("%s: %s rows are written", name, got)
		}
	}
}

func writtenValues(w *world) {
	w.exec(`CREATE TABLE t (id int PRIMARY KEY, b bool, f float8, n numeric, ba bytea, j jsonb, ts timestamptz, a ` +
		`int[], at text[], iv interval, u uuid, c char(3))`)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.FixedZone("", 7200))
	row := m{"id": int64(1), "b": true, "f": 1.5, "n": "1.10", "ba": []byte{0, 255}, "j": m{"a": []any{1, "x"}},
		"ts": at, "a": []any{1, nil, 3},
		"at": []any{"a,b", `q"\`, nil}, "iv": time.Minute, "u": "6b86b273-ff34-4ce1-9d6b-804eff5a3f57", "c": "ab"}
	d := w.destination(m2s())
	const want = `1|t|1.5|1.10|\x00ff|{"a": [1, "x"]}|2026-01-02 ` +
		`01:04:05.678+00|{1,NULL,3}|{"a,b","q\"\\",NULL}|00:01:00|6b86b273-ff34-4ce1-9d6b-804eff5a3f57|ab `
	d.write(plugintest.Row(1, record.OperationCreate, m{"id": 1}, row))
	if got := w.query("SELECT id, b, f, n, ba, j, ts AT TIME ZONE 'UTC' || '+00', a, at, iv, u, c FROM t"); got !=
		want {
		w.Errorf("with a key:\n got %s\nwant %s", got, want)
	}
	w.exec("TRUNCATE t")
	d.write(plugintest.Row(2, record.OperationCreate, nil, row))
	if got := w.query("SELECT id, b, f, n, ba, j, ts AT TIME ZONE 'UTC' || '+00', a, at, iv, u, c FROM t"); got !=
		want {
		w.Errorf("without a key:\n got %s\nwant %s", got, want)
	}
}

// once writes records again after a restart, as an agent does after a kill.
func once(w *world) {
	w.exec("CREATE TABLE t (n int)")
	settings := map[string]string{"positionTable": "conduit_positions"}
	var all []record.Record
	for i := range 100 {
		all = append(all, plugintest.Row(i, record.OperationCreate, nil, m{"n": i}))
	}
	w.destination(settings).write(all[:60]...)
	d := w.destination(settings)
	d.write(all[30:80]...)
	w.destination(settings).write(all[80:]...)
	if got := w.query("SELECT count(*), count(DISTINCT n) FROM t"); got != "100|100" {
		w.Errorf("got %s", got)
	}
	beside := []*destination{w.destination(settings), w.destination(settings)} // such as a replay of dead letters
	w.exec("TRUNCATE t")
	for i, n := range []int{1000, 1010, 1020, 1025, 1040} {
		all = nil
		for j := range 10 {
			all = append(all, plugintest.Row(n+j, record.OperationCreate, nil, m{"n": n + j}))
		}
		beside[i%2].write(all...)
	}
	if got := w.query("SELECT count(*), count(DISTINCT n) FROM t"); got != "45|45" {
		w.Errorf("two instances wrote %s", got)
	}
	if err := d.LifecycleOnDeleted(d.ctx,
		map[string]string{"url": w.url(), "positionTable": "conduit_positions"}); err != nil {
		w.Fatal(err)
	}
	if got := w.query("SELECT count(*) FROM conduit_positions"); got != "0" {
		w.Errorf("%s rows of positions are left", got)
	}
}

// lostAnswer loses the connection repeatedly while records are written. With a position table no record is written
// twice, although some were committed without an answer.
func lostAnswer(w *world) {
	w.exec("CREATE TABLE t (n int)")
	proxy := network.NewProxy(w.T, w.server.Addr)
	d := w.destination(map[string]string{"positionTable": "conduit_positions",
		"url": strings.Replace(w.url(), w.server.Addr, proxy.Addr(), 1)})
	cuts := proxy.CutEverywhere(100) // many more parts than a connection needs for its first records
	for n := 0; n < 300; {
		var all []record.Record
		for i := range 5 {
			all = append(all, plugintest.Row(n+i, record.OperationCreate, nil, m{"n": n + i}))
		}
		done, err := d.Write(d.ctx, all)
		if lost, ok := err.(interface{ Lost() bool }); err != nil && (!ok || !lost.Lost()) {
			w.Fatal(err)
		}
		n += done
	}
	if got := w.query("SELECT count(*), count(DISTINCT n) FROM t"); got != "300|300" || cuts() < 20 {
		w.Errorf("got %s rows and distinct ones after %d cuts, want 300|300 after at least 20", got, cuts())
	}
}

func names(w *world) {
	w.exec(`CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE "a.b" (id int); CREATE TABLE "Odd ""name" ("Col ` +
		`umn" int)`)
	w.destination(map[string]string{"table": "s.t"}).write(plugintest.Row(1, record.OperationCreate, nil, m{"id": 1}))
	w.destination(map[string]string{"table": "a.b"}).write(plugintest.Row(1, record.OperationCreate, nil, m{"id": 1}))
	w.destination(map[string]string{"table": `Odd "name`}).write(plugintest.Row(1, record.OperationCreate, nil,
		m{"Col umn": 1}))
	w.destination(map[string]string{"table": `s.{{ index .Metadata "opencdc.collection" }}`}).write(plugintest.Row(1,
		record.OperationCreate, nil, m{"id": 2}))
	if got := w.query(`SELECT (SELECT count(*) FROM s.t), (SELECT count(*) FROM "a.b"), (SELECT count(*) FROM "Odd ` +
		`""name")`); got != "2|1|1" {
		w.Errorf("got %s", got)
	}
	d := w.destination(map[string]string{"table": "none"})
	if _, err := d.Write(d.ctx, []record.Record{plugintest.Row(1, record.OperationCreate, nil, m{"id": 1})}); err ==
		nil || !strings.Contains(err.Error(), "cannot find table none: create it") {
		w.Errorf("got %v", err)
	}
}

// roundTrip copies a table with all its types, and its changes, to another one. JSON arrives without its white space.
func roundTrip(w *world) {
	const columns = `(id bigint PRIMARY KEY, b bool, i2 smallint, f4 real, f8 double precision, n numeric(30,5),
		c char(3), v varchar(5), ba bytea, ts timestamp, tz timestamptz,
		d date, ti time, iv interval, u uuid, j json, jb jsonb, ip inet, bits varbit, a int[], r int4range, pt point,
		big text NOT NULL)`
	w.exec("CREATE TABLE t " + columns + "; CREATE SCHEMA copy; CREATE TABLE copy.t " + columns + `;
		ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
		INSERT INTO t VALUES (1, false, -2, 1.1, 2.2, 1234567890123.12345, 'a', 'v', '\x5c0a09', '2026-01-02 03:04:05.678901',
		'2026-01-02 03:04:05+02', '2026-01-02', '03:04:05', '1 mon',
			'6b86b273-ff34-4ce1-9d6b-804eff5a3f57', '{"a":1}', '{"b":2}', '10.0.0.1', B'101', '{1,NULL}', '[1,5)', '(1,2)',
			repeat('x', 10000));
		INSERT INTO t (id, ts, tz, big) VALUES (2, 'infinity', '-infinity', '')`)
	s := w.open(w.settings("t"), nil)
	d := w.destination(map[string]string{"table": "copy.t"})
	d.write(s.Next(2)...)
	w.exec("UPDATE t SET v = 'new' WHERE id = 1; UPDATE t SET id = 3 WHERE id = 2; INSERT INTO t (id, big) VALUES " +
		"(4, 'x'); DELETE FROM t WHERE id = 4")
	d.write(s.Next(5)...)
	const all = "SELECT string_agg(t::text, E'\\n' ORDER BY id) FROM "
	if a, b := w.query(all+"t"), w.query(all+"copy.t AS t"); a != b {
		w.Errorf("the table\n%s\nthe copy\n%s", a, b)
	}
}
