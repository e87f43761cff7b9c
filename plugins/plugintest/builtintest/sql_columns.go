package builtintest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// SQLTables checks how a destination creates tables, and maps fields to their columns. The database has no tables.
type SQLTables struct {
	Open  func(settings ...string) (sdk.Destination, context.Context)
	Query func(text string) string // returns the rows of a query, columns joined by |, NULL as nothing
	Quote func(name string) string
}

type object = map[string]any

// row returns a record for a table.
func row(table string, n int, op record.Operation, key, after object) record.Record {
	r := plugintest.Row(n, op, key, after)
	r.Metadata.Set(record.KeyCollection, table)
	return r
}

// write writes the records at once.
func (s *SQLTables) write(t testing.TB, records []record.Record, settings ...string) {
	t.Helper()
	d, ctx := s.Open(settings...)
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
}

func (s *SQLTables) expect(t testing.TB, query, want string) {
	t.Helper()
	if got := s.Query(query); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", query, got, want)
	}
}

// SQLValues is the query for the values that CheckCreates writes to the table typed.
const SQLValues = "SELECT id, CASE WHEN b THEN 'yes' ELSE 'no' END, i, big, f, n, x, later, unset FROM typed ORDER " +
	"BY id"

// CheckCreates writes to missing tables. values is the result of SQLValues.
func (s *SQLTables) CheckCreates(t testing.TB, values string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC)
	first := object{"id": int64(1), "b": true, "i": int32(-7), "big": uint64(1 << 63), "f": 1.5,
		"n": json.Number("12345678901234567890.12"), "x": "a'\"b", "raw": []byte{0, 255}, "at": at,
		"j": object{"a": []any{1, "x"}}, "list": []any{1}, "later": nil, "unset": nil}
	s.write(t, []record.Record{
		row("typed", 1, record.OperationDelete, object{"id": 9}, nil),
		row("typed", 2, record.OperationSnapshot, object{"id": int64(1)}, first),
		row("typed", 3, record.OperationUpdate, object{"id": int64(1)}, object{"id": int64(1), "later": "now"}),
		row("typed", 4, record.OperationCreate, object{"id": int64(2)}, object{"id": int64(2), "b": false}),
		row("typed", 5, record.OperationCreate, object{"id": int64(3)}, object{"id": int64(3), "b": false}),
		row("typed", 6, record.OperationDelete, object{"id": int64(3)}, nil),
	}, "schema.evolution", "create")
	s.expect(t, SQLValues, values)

	// A composite key of texts. Letters and trailing spaces make different keys.
	var all []record.Record
	for i, k := range []string{"a", "A", "a ", "ä"} {
		key := object{"k": k, "n": 1}
		all = append(all, row("keyed", i, record.OperationCreate, key, key), row("keyed", i, record.OperationCreate, key,
			key))
	}
	s.write(t, all, "schema.evolution", "create")
	s.expect(t, "SELECT count(*) FROM keyed", "4")

	// An integer in decoded JSON is a float.
	decoded := object{"id": 7.0, "v": 1.0}
	s.write(t, []record.Record{row("decoded", 1, record.OperationCreate, object{"id": 7.0}, decoded),
		row("decoded", 2, record.OperationCreate, object{"id": 8.0}, object{"id": 8.0, "v": 1.5})}, "schema.evolution",
		"create")
	s.expect(t, "SELECT id, v FROM decoded WHERE id = 8", "8|1.5")

	// Without a key there is no primary key.
	unkeyed := row("unkeyed", 1, record.OperationCreate, nil, object{"v": "a"})
	s.write(t, []record.Record{unkeyed, unkeyed}, "schema.evolution", "create")
	s.expect(t, "SELECT count(*) FROM unkeyed", "2")

	// Nothing is created for a delete.
	s.write(t, []record.Record{row("gone", 1, record.OperationDelete, object{"id": 1}, nil)}, "schema.evolution", "create")
	s.write(t, []record.Record{row("gone", 1, record.OperationCreate, object{"id": 1}, object{"id": 1, "x": "a"})},
		"schema.evolution", "create")
	s.expect(t, "SELECT x FROM gone", "a")
}

// CheckNames creates tables with unusual names, and changes their rows. tooLong is a name that the database does not
// allow; empty: there is none.
func (s *SQLTables) CheckNames(t testing.TB, tooLong string) {
	t.Helper()
	for _, name := range []string{"select", "Größe ✓", `a"b`, "a`b", "a'b", "a;b", "no.such", "x y", "a?b", "$1", "--"} {
		key := object{name: int64(1)}
		s.write(t, []record.Record{
			row(name, 1, record.OperationCreate, key, object{name: int64(1), name + "2": "a"}),
			row(name, 2, record.OperationUpdate, key, object{name: int64(1), name + "2": "b"}),
		}, "schema.evolution", "create")
		s.expect(t, "SELECT "+s.Quote(name+"2")+" FROM "+s.Quote(name), "b")
		s.write(t, []record.Record{row(name, 3, record.OperationDelete, key, nil)})
		s.expect(t, "SELECT count(*) FROM "+s.Quote(name), "0")
	}
	wrong := map[string]record.Record{
		"is no name of a column": row("fresh", 1, record.OperationCreate, nil, object{"a\x00b": 1}),
		"table a":                row("a\x00b", 1, record.OperationCreate, nil, object{"a": 1}),
	}
	if tooLong != "" {
		wrong["of a table is too long"] = row(tooLong, 1, record.OperationCreate, nil, object{"a": 1})
		wrong["of a column is too long"] = row("fresh", 1, record.OperationCreate, nil, object{tooLong: 1})
	}
	for want, r := range wrong {
		d, ctx := s.Open("schema.evolution", "create")
		if _, err := d.Write(ctx, []record.Record{r}); err == nil || Lost(err) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// CheckMissing writes to a missing table without the setting that creates it, runs the statement in the error, and
// writes again.
func (s *SQLTables) CheckMissing(t testing.TB) {
	t.Helper()
	records := []record.Record{row("missing", 1, record.OperationCreate, object{"id": int64(1)}, object{"id": int64(1),
		"x": "a"})}
	d, ctx := s.Open()
	_, err := d.Write(ctx, records)
	if err == nil || Lost(err) ||
		!strings.Contains(err.Error(), "or set schema.evolution to create. To create it, run: CREATE") {
		t.Fatalf("got %v", err)
	}
	_, statement, _ := strings.Cut(err.Error(), "run: ")
	s.Query(statement)
	s.write(t, append(records, records...))
	s.expect(t, "SELECT id, x FROM missing", "1|a")
}

// CheckConcurrent creates a table with several destinations at the same time.
func (s *SQLTables) CheckConcurrent(t testing.TB) {
	t.Helper()
	const n, tables = 4, 5
	var writes [n]func(table int) error
	for i := range n {
		d, ctx := s.Open("schema.evolution", "create")
		writes[i] = func(table int) error {
			r := row(fmt.Sprint("together", table), i, record.OperationCreate, object{"id": int64(i)},
				object{"id": int64(i), "x": "a"})
			_, err := d.Write(ctx, []record.Record{r})
			return err
		}
	}
	for table := range tables {
		start := make(chan struct{})
		var all sync.WaitGroup
		for _, write := range writes {
			all.Go(func() {
				<-start
				if err := write(table); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
	}
	s.expect(t, "SELECT count(*) FROM together0", "4")
	s.expect(t, "SELECT count(*) FROM together4", "4")
}

// CheckAddedColumns adds a column while the destination is open. execute executes a statement.
func (s *SQLTables) CheckAddedColumns(t testing.TB, execute func(text string)) {
	t.Helper()
	d, ctx := s.Open("schema.evolution", "create")
	write := func(n int, after object) {
		t.Helper()
		key := object{"id": int64(n)}
		after["id"] = int64(n)
		if n, err := d.Write(ctx, []record.Record{row("growing", n, record.OperationCreate, key, object{"a": "x"}),
			row("growing", n, record.OperationUpdate, key, after)}); n != 2 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	write(1, object{"a": "y"})
	execute("ALTER TABLE growing ADD COLUMN b VARCHAR(10)")
	write(2, object{"a": "y", "b": "z"})
	write(3, object{"b": "w"})
	s.expect(t, "SELECT id, a, b FROM growing ORDER BY id", "1|y|\n2|y|z\n3|x|w")
}

// CheckMapping writes rows with renamed, constant, computed and omitted columns.
func (s *SQLTables) CheckMapping(t testing.TB) {
	t.Helper()
	settings := []string{"schema.evolution", "create",
		"columns.rename.id", "order_id", "columns.rename.cust", "customer", "columns.omit", "secret, other",
		"columns.constant.shop", "berlin", "columns.expression.total", "after.price * after.count",
		"columns.expression.op", "operation"}
	key := func(n int) object { return object{"id": int64(n)} }
	raw := row("orders", 5, record.OperationCreate, nil, nil)
	raw.Key, raw.After = record.Raw([]byte(`{"id":4}`)), record.Raw([]byte(`{"id":4,"cust":"d","price":2,"count":4}`))
	s.write(t, []record.Record{
		row("orders", 1, record.OperationCreate, key(1), object{"id": int64(1), "cust": "a", "price": 3, "count": 2,
			"secret": "s"}),
		row("orders", 2, record.OperationCreate, key(2), object{"id": int64(2), "cust": "b", "price": 1, "count": 2}),
		row("orders", 3, record.OperationUpdate, key(1), object{"id": int64(1), "cust": "c", "price": 9}), // has no count
		row("orders", 4, record.OperationDelete, key(2), nil),
		raw,
	}, settings...)
	s.expect(t, "SELECT order_id, customer, shop, total, op FROM orders ORDER BY order_id",
		"1|c|berlin|6|update\n4|d|berlin|8|create")

	// The key has a constant, and a value that the record's key lacks.
	shops := []string{"schema.evolution", "create", "columns.key", "shop, n", "columns.constant.shop", "x",
		"columns.expression.n", "key.id * 10"}
	s.write(t, []record.Record{
		row("shops", 1, record.OperationCreate, key(1), object{"id": int64(1), "v": "a"}),
		row("shops", 2, record.OperationCreate, key(2), object{"id": int64(2), "v": "b"}),
		row("shops", 3, record.OperationUpdate, key(1), object{"id": int64(1), "v": "c"}),
		row("shops", 4, record.OperationDelete, key(2), nil),
	}, shops...)
	s.expect(t, "SELECT shop, n, id, v FROM shops", "x|10|1|c")

	for want, c := range map[string]struct {
		settings []string
		record   record.Record
	}{
		`has the field "id" of the record's key`: {[]string{"columns.omit", "id"},
			row("orders", 1, record.OperationDelete, key(1), nil)},
		`two fields of the record have the column "customer"`: {[]string{"columns.rename.cust", "customer"},
			row("orders", 1, record.OperationCreate, nil, object{"cust": 1, "customer": 2})},
		`has no value for column "shop" of the key`: {[]string{"columns.key", "shop"},
			row("shops", 1, record.OperationDelete, key(1), nil)},
		"columns.expression.v:1:": {[]string{"columns.expression.v", "after.v + 1"},
			row("shops", 1, record.OperationCreate, key(1), object{"v": object{}})},
		"set columns.key": {[]string{"columns.expression.v", "1"},
			row("shops", 1, record.OperationDelete, nil, nil)},
	} {
		d, ctx := s.Open(c.settings...)
		if _, err := d.Write(ctx, []record.Record{c.record}); err == nil || Lost(err) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// CheckModes writes the same changes in every mode.
func (s *SQLTables) CheckModes(t testing.TB) {
	t.Helper()
	changes := func(table string) []record.Record {
		deleted := row(table, 4, record.OperationDelete, object{"id": int64(1)}, nil)
		deleted.Before = record.Structured(object{"id": int64(1), "x": "b"})
		return []record.Record{
			row(table, 1, record.OperationCreate, object{"id": int64(1)}, object{"id": int64(1), "x": "a"}),
			row(table, 2, record.OperationUpdate, object{"id": int64(1)}, object{"id": int64(1), "x": "b"}),
			row(table, 3, record.OperationCreate, object{"id": int64(2)}, object{"id": int64(2), "x": "c"}),
			deleted,
			row(table, 5, record.OperationDelete, object{"id": int64(9)}, nil), // there is no such row
		}
	}
	flag := ", CASE WHEN gone THEN 'gone' ELSE 'there' END"
	for table, c := range map[string]struct{ settings, columns, want string }{
		"upserted": {"", "", "2|c"},
		"ignored":  {"delete ignore", "", "1|b\n2|c"},
		"marked":   {"delete soft delete.column gone", flag, "1|b|gone\n2|c|there"},
		"appended": {"mode append", "", "1|a\n1|b\n1|b\n2|c\n9|"},
		"operations": {"mode append columns.expression.op operation", ", op",
			"1|a|create\n1|b|delete\n1|b|update\n2|c|create\n9||delete"},
		"kept": {"mode append delete ignore", "", "1|a\n1|b\n2|c"},
	} {
		order := "id, x" + strings.TrimPrefix(c.columns, flag)
		s.write(t, changes(table), append(strings.Fields(c.settings), "schema.evolution", "create")...)
		s.expect(t, "SELECT id, x"+c.columns+" FROM "+table+" ORDER BY "+order, c.want)
	}

	// A row that comes again is not deleted any more.
	again := []record.Record{row("marked", 6, record.OperationCreate, object{"id": int64(1)}, object{"id": int64(1),
		"x": "d"})}
	s.write(t, again, "delete", "soft", "delete.column", "gone")
	s.expect(t, "SELECT id, x"+flag+" FROM marked ORDER BY id", "1|d|there\n2|c|there")

	// Every record deletes its row.
	s.write(t, []record.Record{row("marked", 7, record.OperationCreate, object{"id": int64(1)}, object{"id": int64(1),
		"x": "d"})}, "mode", "delete")
	s.write(t, []record.Record{row("marked", 8, record.OperationCreate, nil, object{"id": int64(2)})}, "mode", "delete",
		"columns.key", "id")
	s.expect(t, "SELECT count(*) FROM marked", "0")
}

// CheckCreatesOnce writes records to a created table again after a restart, as an agent does after a kill.
func (s *SQLTables) CheckCreatesOnce(t testing.TB) {
	t.Helper()
	var all []record.Record
	for i := range 50 {
		all = append(all, row("once", i, record.OperationCreate, nil, object{"n": i, "secret": 1}))
	}
	for _, part := range [][]record.Record{all[:30], all[10:40], all[40:]} {
		s.write(t, part, "positionTable", "conduit_positions", "schema.evolution", "create", "columns.rename.n", "number",
			"columns.omit", "secret", "mode", "append")
	}
	s.expect(t, "SELECT count(*), count(DISTINCT number) FROM once", "50|50")
}
