package s3_test

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// column is a column of Parquet objects in DuckDB.
type column struct {
	name, avro, duckdb string
	make               func(r *rand.Rand) (value any, literal string) // literal is in SQL
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

var columns = []column{
	{"boolean", `"boolean"`, "BOOLEAN", func(r *rand.Rand) (any, string) {
		b := r.IntN(2) == 0
		return b, fmt.Sprint(b)
	}},
	{"long", `"long"`, "BIGINT", func(r *rand.Rand) (any, string) { n := int64(r.Uint64()); return n, fmt.Sprint(n) }},
	{"double", `"double"`, "DOUBLE", func(r *rand.Rand) (any, string) {
		f := r.NormFloat64()
		return f, fmt.Sprintf("'%v'::DOUBLE", f)
	}},
	{"text", `"string"`, "VARCHAR", func(r *rand.Rand) (any, string) {
		s := strings.Repeat([]string{"é", "'", "", "NULL", "\n"}[r.IntN(5)], r.IntN(3))
		return s, quoted(s)
	}},
	{"bytes", `"bytes"`, "BLOB", func(r *rand.Rand) (any, string) {
		b := []byte{byte(r.Uint32()), 0, byte(r.Uint32())}
		return b, fmt.Sprintf("unhex('%x')", b)
	}},
	{"decimal", `{"type":"bytes","logicalType":"decimal","precision":38,"scale":4}`, "DECIMAL(38,4)",
		func(r *rand.Rand) (any, string) {
			s := fmt.Sprintf("%d%017d.%04d", r.Int64N(2e17)-1e17, r.Int64N(1e17), r.IntN(1e4))
			return s, quoted(s) + "::DECIMAL(38,4)"
		}},
	{"date", `{"type":"int","logicalType":"date"}`, "DATE", func(r *rand.Rand) (any, string) {
		t := time.Unix((r.Int64N(200_000)-50_000)*86400, 0).UTC()
		return t, quoted(t.Format(time.DateOnly)) + "::DATE"
	}},
	{"time", `{"type":"long","logicalType":"time-micros"}`, "TIME", func(r *rand.Rand) (any, string) {
		d := time.Duration(r.Int64N(86_400_000_000)) * time.Microsecond
		return d, quoted(time.Time{}.Add(d).Format("15:04:05.000000")) + "::TIME"
	}},
	{"instant", `{"type":"long","logicalType":"timestamp-micros"}`, "TIMESTAMP WITH TIME ZONE",
		func(r *rand.Rand) (any, string) {
			t := time.UnixMicro(r.Int64N(1<<52) - 1<<51).UTC()
			return t, quoted(t.Format("2006-01-02 15:04:05.000000+00")) + "::TIMESTAMPTZ"
		}},
	{"local", `{"type":"long","logicalType":"local-timestamp-micros"}`, "TIMESTAMP", func(r *rand.Rand) (any, string) {
		t := time.UnixMicro(r.Int64N(1<<52) - 1<<51).UTC()
		return t, quoted(t.Format("2006-01-02 15:04:05.000000")) + "::TIMESTAMP"
	}},
	{"precise", `{"type":"long","logicalType":"local-timestamp-nanos"}`, "TIMESTAMP_NS",
		func(r *rand.Rand) (any, string) {
			t := time.Unix(0, r.Int64()-1<<62).UTC()
			return t, quoted(t.Format("2006-01-02 15:04:05.000000000")) + "::TIMESTAMP_NS"
		}},
	{"uuid", `{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}`, "UUID", func(r *rand.Rand) (any, string) {
		s := fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.IntN(1<<48))
		return s, quoted(s) + "::UUID"
	}},
	{"json", `{"type":"string","logicalType":"json"}`, "VARCHAR", func(r *rand.Rand) (any, string) {
		n := r.IntN(100)
		return map[string]any{"a": n}, fmt.Sprintf(`'{"a":%d}'`, n)
	}},
	{"list", `{"type":"array","items":["null","long"]}`, "BIGINT[]", func(r *rand.Rand) (any, string) {
		items, texts := []any{}, []string{}
		for range r.IntN(4) {
			n := r.IntN(10)
			items, texts = append(items, n, nil), append(texts, fmt.Sprint(n), "NULL")
		}
		return items, "[" + strings.Join(texts, ",") + "]::BIGINT[]"
	}},
	{"map", `{"type":"map","values":"double"}`, "MAP(VARCHAR, DOUBLE)", func(r *rand.Rand) (any, string) {
		f := r.Float64()
		return map[string]any{"k": f}, fmt.Sprintf("MAP {'k': '%v'::DOUBLE}", f)
	}},
	{"nested, group", `"null"`, "STRUCT(a BIGINT, b STRUCT(c VARCHAR)[])", func(r *rand.Rand) (any, string) {
		n := r.IntN(100) // without a schema
		return map[string]any{"a": n, "b": []any{map[string]any{"c": fmt.Sprint(n)}}},
			fmt.Sprintf("{'a': %d::BIGINT, 'b': [{'c': '%[1]d'}]}", n)
	}},
}

// save writes the objects of a bucket to a directory.
func save(t *testing.T, s *server.S3, bucket string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range s.Files(t, bucket) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// directory returns the address of a store that writes objects to files, and the directory with the files of a bucket.
func directory(t *testing.T, bucket string) (addr, dir string) {
	t.Helper()
	root := t.TempDir()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			return
		}
		content, err := io.ReadAll(r.Body)
		path := filepath.Join(root, filepath.FromSlash(r.URL.Path))
		if err = cmp.Or(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), filepath.Join(root, bucket)
}

// TestDuckDB compares objects with random records, nulls among them, in DuckDB. It also compares the number of records
// that a condition selects, for which DuckDB uses the statistics of the objects.
func TestDuckDB(t *testing.T) {
	load.Parallel(t, load.Server)
	addr, dir := directory(t, "bkt")
	registry := &schema.Memory{}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: sdk.Logger(t.Context()), Schemas: registry})
	fields := ""
	for _, c := range columns {
		if c.avro != `"null"` {
			fields += fmt.Sprintf(`,{"name":%q,"type":["null",%s]}`, c.name, c.avro)
		}
	}
	if _, err := registry.Create(ctx, "r", schema.TypeAvro,
		`{"type":"record","name":"r","fields":[`+fields[1:]+`]}`); err != nil {
		t.Fatal(err)
	}
	d := destinationOf(t, settings(addr, "format", "parquet", "parquet.columns", "payload", "parquet.recordColumns",
		"operation,key,position,metadata"))
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var rows []string
	for batch := range 3 {
		var records []record.Record
		for i := range 200 {
			payload, literals := map[string]any{}, []string{fmt.Sprintf("encode('%d/%d')", batch, i)}
			for _, c := range columns {
				value, literal := c.make(r)
				if r.IntN(4) == 0 {
					value, literal = nil, "NULL"
				}
				payload[c.name], literals = value, append(literals, literal)
			}
			rec := made(fmt.Sprintf("%d/%d", batch, i), "")
			rec.Metadata.Set(record.KeyPayloadSchemaSubject, "r")
			rec.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
			rec.After = record.Structured(payload)
			records, rows = append(records, rec), append(rows, "("+strings.Join(literals, ",")+")")
		}
		if n, err := d.Write(ctx, records); n != len(records) || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	names, types := "conduit_position", "conduit_position BLOB"
	for _, c := range columns {
		names += fmt.Sprintf(", %q", c.name)
		types += fmt.Sprintf(", %q %s", c.name, c.duckdb)
	}
	objects := "read_parquet(" + quoted(filepath.Join(dir, "*.parquet")) + ", union_by_name = true)"
	tables := fmt.Sprintf("CREATE TABLE want (%s); INSERT INTO want VALUES %s;\n", types, strings.Join(rows, ",\n"))
	got := server.DuckDB(t, tables+fmt.Sprintf("(SELECT 'object', %s FROM %s EXCEPT ALL "+
		"SELECT 'object', %[1]s FROM want) UNION ALL (SELECT 'record', %[1]s FROM want EXCEPT ALL "+
		"SELECT 'record', %[1]s FROM %[2]s)", names, objects))
	if len(got.Rows) > 0 {
		t.Errorf("%d rows differ, such as %v", len(got.Rows), got.Rows[0])
	}
	got = server.DuckDB(t, "SELECT * FROM "+objects)
	want := map[string]string{"conduit_operation": "VARCHAR", "conduit_key": "BLOB", "conduit_position": "BLOB",
		"conduit_metadata": "MAP(VARCHAR, VARCHAR)"}
	for _, c := range columns {
		want[c.name] = c.duckdb
	}
	types = ""
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if simple := strings.ReplaceAll(got.Types[name], `"`, ""); simple != want[name] {
			types += fmt.Sprintf(" %s is %s, want %s;", name, simple, want[name])
		}
	}
	if len(got.Rows) != len(rows) || types != "" {
		t.Errorf("%d rows of %d;%s", len(got.Rows), len(rows), types)
	}
	for _, condition := range []string{"long > 0", "double < -1.5", "decimal >= 0", "date > '2100-01-01'",
		"instant < '2000-01-01'", "local > '1990-01-01'", "uuid < '80000000-0000-4000-8000-000000000000'", "bytes > 'a'",
		"text = 'NULL'", "time < '06:00'", "precise > '2000-01-01'", "boolean"} {
		got := server.DuckDB(t, tables+fmt.Sprintf("SELECT (SELECT count(*) FROM %s WHERE %s)::INTEGER AS objects, "+
			"(SELECT count(*) FROM want WHERE %[2]s)::INTEGER AS records", objects, condition))
		if n := got.Rows[0]; n["objects"] != n["records"] || n["records"] == 0.0 {
			t.Errorf("%s selects %v", condition, n)
		}
	}
}

// TestParquetExample runs the example of the page, with the addresses and paths of the test, and its query: DuckDB has
// the rows of the database.
func TestParquetExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a, s, p := agenttest.Start(t, ""), store(t), server.StartPostgres(t, "", "wal_level=logical")
	exec := func(sql string) {
		t.Helper()
		c, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.Addr))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		if err := c.Exec(t.Context(), sql).Close(); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10,2), day date, at timestamptz, local timestamp,
		paid boolean, lines jsonb); INSERT INTO orders VALUES (1, 9.90, '2026-02-28', '2026-02-28 12:00:00.000001+01',
		'2026-02-28 12:00', true, '[{"sku": "a"}]'), (2, 1, NULL, NULL, NULL, NULL, NULL), (3, 0, NULL, NULL, NULL, false,
		NULL)`)
	page, err := os.ReadFile("../../../../../plugins/builtin/s3/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Columns of Parquet")
	block := func(language string) string {
		_, rest, _ := strings.Cut(section, "```"+language+"\n")
		text, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("the page has no example in %s", language)
		}
		return text
	}
	replaced := func(text string, pairs ...string) string {
		t.Helper()
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("the example has no %q", pairs[i])
			}
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
		return text
	}
	password := a.Path("secret")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("lake.yaml", replaced(block("yaml"),
		"postgres://conduit:${file:/etc/conduit/shop-password}@db.example.com/shop?sslmode=verify-full",
		fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.Addr),
		"https://minio.example.com:9000", "http://"+s.Addr, "aws.bucket: lake", "aws.bucket: bkt",
		"/etc/conduit/s3-secret", password, "eu-central-1", "us-east-1", "sdk.batch.delay: 1m", "sdk.batch.delay: 100ms"))
	a.WaitPhase("lake", spec.PhaseRunning, 1)
	rows := func() (server.Rows, string) {
		dir := save(t, s, "bkt")
		if files, _ := filepath.Glob(filepath.Join(dir, "orders/*/*.parquet")); len(files) == 0 {
			return server.Rows{}, ""
		}
		got := server.DuckDB(t, replaced(block("sql"), "s3://lake", dir))
		return got, fmt.Sprint(got.Rows)
	}
	is := func(want string) func() bool {
		return func() bool { _, got := rows(); return got == want }
	}
	first := "[map[at:2026-02-28 11:00:00.000001+00 day:2026-02-28 id:1 lines:[{\"sku\":\"a\"}] " +
		"local:2026-02-28 12:00:00 paid:true total:9.90]"
	row := func(id int, total, paid string) string {
		return fmt.Sprintf(" map[at:<nil> day:<nil> id:%d lines:<nil> local:<nil> paid:%s total:%s]", id, paid, total)
	}
	a.Wait("the rows that were there", is(first+row(2, "1.00", "<nil>")+row(3, "0.00", "false")+"]"))
	exec("UPDATE orders SET total = 12345678.9 WHERE id = 2; DELETE FROM orders WHERE id = 3; INSERT INTO orders VALUES " +
		"(4, -0.01)")
	a.Wait("the changes", is(first+row(2, "12345678.90", "<nil>")+row(4, "-0.01", "<nil>")+"]"))
	got, _ := rows()
	if want := fmt.Sprint(map[string]string{"id": "BIGINT", "total": "DECIMAL(10,2)", "day": "DATE",
		"at": "TIMESTAMP WITH TIME ZONE", "local": "TIMESTAMP", "paid": "BOOLEAN", "lines": "VARCHAR"}); fmt.Sprint(
		got.Types) != want {
		t.Errorf("the types are %v, want %s", got.Types, want)
	}
}
