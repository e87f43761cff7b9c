package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func (w *world) newTables() *builtintest.SQLTables {
	return &builtintest.SQLTables{Open: w.sink().Open, Query: w.query, Quote: sqlite.Quote}
}

func TestCreatesTables(t *testing.T) {
	w := newWorld(t, "")
	w.newTables().CheckCreates(t, "1|yes|-7|9223372036854775808|1.5|12345678901234567890.12|a'\"b|now|\n2|no|||||||")
	const want = `CREATE TABLE "typed" ("id" INTEGER NOT NULL, "at" TEXT, "b" BOOLEAN, "big", "f" REAL, "i" INTEGER, ` +
		`"j" TEXT, "later" TEXT, "list" TEXT, "n" TEXT, "raw" BLOB, "unset", "x" TEXT, PRIMARY KEY ("id"))`
	if got := w.query("SELECT sql FROM sqlite_master WHERE name = 'typed'"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.query("SELECT hex(raw), at, j, list FROM typed WHERE id = 1"); got !=
		`00FF|2026-01-02 03:04:05.678Z|{"a":[1,"x"]}|[1]` {
		t.Errorf("got %s", got)
	}
}

func TestCreatedNames(t *testing.T)   { newWorld(t, "").newTables().CheckNames(t, "") }
func TestMissingTable(t *testing.T)   { newWorld(t, "").newTables().CheckMissing(t) }
func TestCreateTogether(t *testing.T) { newWorld(t, "").newTables().CheckConcurrent(t) }
func TestMapping(t *testing.T)        { newWorld(t, "").newTables().CheckMapping(t) }

// TestAddedColumns adds a column to a table that the destination has written to.
func TestAddedColumns(t *testing.T) {
	w := newWorld(t, "")
	w.newTables().CheckAddedColumns(t, func(text string) { w.exec(text) })
}

func TestModes(t *testing.T)            { newWorld(t, "").newTables().CheckModes(t) }
func TestCreatedTableOnce(t *testing.T) { newWorld(t, "").newTables().CheckCreatesOnce(t) }

// TestCreatesWithSchema checks that a column has the type that the schema of the records declares, unless their values
// have another one, and the order of the fields.
func TestCreatesWithSchema(t *testing.T) {
	w := newWorld(t, "")
	d, ctx := w.destination("schema.evolution", "create", "columns.rename.price", "cost", "columns.omit", "internal")
	const text = `{"type":"record","name":"t","fields":[
		{"name":"z","type":["null","int"]},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
		{"name":"internal","type":"int"}, {"name":"unseen","type":"int"},
		{"name":"empty","type":["null","double"]}, {"name":"changed","type":"int"},
		{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-micros"},"string"]},
		{"name":"a","type":"bytes"}]}`
	found, err := sdk.EnvFrom(ctx).Schemas.Create(ctx, "t_payload", schema.TypeAvro, text)
	if err != nil {
		t.Fatal(err)
	}
	r := plugintest.Row(1, record.OperationCreate, m{"a": "k"}, m{"a": []byte("k"), "z": int64(1), "price": "1.50",
		"internal": 7, "empty": nil, "changed": "now text", "at": "infinity"})
	r.Metadata.Set(record.KeyPayloadSchemaSubject, found.Subject)
	r.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
	if n, err := d.Write(ctx, []record.Record{r}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	const want = `CREATE TABLE "t" ("a" BLOB NOT NULL, "z" INTEGER, "cost" TEXT, "empty" REAL, "changed" TEXT, "at" ` +
		`TEXT, PRIMARY KEY ("a"))`
	if got := w.query("SELECT sql FROM sqlite_master WHERE name = 't'"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.query("SELECT cost FROM t"); got != "1.50" {
		t.Errorf("got %s", got)
	}

	r.Metadata.Set(record.KeyCollection, "other")
	r.Metadata.Set(record.KeyPayloadSchemaVersion, "7")
	r.Key, r.After = record.Structured(m{"a": 1}), record.Structured(m{"a": 1})
	if _, err := d.Write(ctx, []record.Record{r}); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("an unknown schema: %v", err)
	}
}

// TestMappingSettings checks that wrong settings are refused when they are checked, with the name of the setting.
func TestMappingSettings(t *testing.T) {
	for _, c := range []struct{ settings, setting, want string }{
		{"mode=other", "mode", "must be one of"},
		{"delete=other", "delete", "must be one of"},
		{"schema.evolution=add", "schema.evolution", "must be one of"},
		{"delete=soft mode=append", "delete", "needs mode upsert"},
		{"delete=ignore mode=delete", "delete", "needs mode upsert"},
		{"columns.key=id mode=append", "columns.key", "needs mode upsert or delete"},
		{"columns.rename.a=b columns.omit=a", "columns.rename.a", "columns.omit"},
		{"columns.rename.a=c columns.rename.b=c", "columns.rename.b", `sets column "c", and so does columns.rename.a`},
		{"columns.constant.a=1 columns.expression.a=2", "columns.expression.a", "and so does columns.constant.a"},
		{"columns.constant.a={{.Key}}", "columns.constant.a", "cannot be a template"},
		{"columns.expression.a=after.", "columns.expression.a", "columns.expression.a:1:6"},
		{"columns.expression.a=price", "columns.expression.a", "unknown name price"},
		{"columns.key=a columns.expression.a=after.x", "columns.expression.a", "use key"},
	} {
		given := map[string]string{"path": "x"}
		for _, s := range strings.Fields(c.settings) {
			name, value, _ := strings.Cut(s, "=")
			given[name] = value
		}
		d := sdk.Standard(sqlite.Connector()).NewDestination()
		err := d.Configure(sdk.WithEnv(t.Context(), &sdk.Env{}), given)
		var wrong sdk.SettingError
		if !errors.As(err, &wrong) || wrong.Setting != c.setting || !strings.Contains(wrong.Message, c.want) {
			t.Errorf("%s: %v, want %s: %s", c.settings, err, c.setting, c.want)
		}
	}
	for _, settings := range []map[string]string{
		{"columns.key": "a", "columns.expression.a": "after.x", "delete": "ignore"},
		{"columns.key": "a", "columns.expression.a": "after.x", "mode": "delete"},
	} {
		settings["path"] = "x"
		if err := sdk.Standard(sqlite.Connector()).NewDestination().Configure(context.Background(), settings); err != nil {
			t.Errorf("%v: %v", settings, err)
		}
	}
}
