package postgres_test

import (
	"context"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func (w *world) newTables() *builtintest.SQLTables {
	open := func(more ...string) (sdk.Destination, context.Context) {
		settings := m2s()
		for i := 0; i < len(more); i += 2 {
			settings[more[i]] = more[i+1]
		}
		d := w.destination(settings)
		return d.Destination, d.ctx
	}
	return &builtintest.SQLTables{Open: open, Query: w.query, Quote: pg.Quote}
}

const typesQuery = "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM " +
	"pg_attribute WHERE attnum > 0 AND attrelid = "

// creates writes to missing tables.
func creates(w *world) {
	all := w.newTables()
	all.CheckCreates(w, "1|yes|-7|9223372036854775808|1.5|12345678901234567890.12|a'\"b|now|\n2|no|||||||")
	const want = "id bigint, at timestamp with time zone, b boolean, big numeric(20,0), f double precision, i integer, " +
		"j jsonb, later text, list jsonb, n numeric, raw bytea, unset text, x text"
	if got := w.query(typesQuery + "'typed'::regclass"); got != want {
		w.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.query("SELECT raw, at AT TIME ZONE 'UTC', j->'a'->>1, list FROM typed WHERE id = 1"); got !=
		"\\x00ff|2026-01-02 03:04:05.678|x|[1]" {
		w.Errorf("got %s", got)
	}
	all.CheckNames(w, strings.Repeat("ä", 32))
	all.CheckMissing(w)
	all.CheckModes(w)
	all.CheckCreatesOnce(w)

	// The server would shorten this name to that of another table.
	long := strings.Repeat("a", 63)
	w.exec("CREATE TABLE " + long + " (id int); CREATE SCHEMA s")
	r := plugintest.Row(1, record.OperationCreate, nil, m{"id": 1})
	r.Metadata.Set(record.KeyCollection, long+"b")
	d := w.destination(m2s())
	if _, err := d.Write(d.ctx, []record.Record{r}); err == nil || !strings.Contains(err.Error(), "is too long") {
		w.Errorf("a name that is too long: %v", err)
	}

	r.Metadata.Set(record.KeyCollection, "s.new")
	w.destination(map[string]string{"schema.evolution": "create"}).write(r)
	if got := w.query("SELECT id FROM s.new"); got != "1" {
		w.Errorf("got %s", got)
	}

	// The server, not the record, is to blame for a missing privilege.
	w.exec("CREATE ROLE reader LOGIN")
	d = w.destination(map[string]string{"schema.evolution": "create", "table": "s.other",
		"url": strings.Replace(w.url(), "postgres@", "reader@", 1)})
	if _, err := d.Write(d.ctx, []record.Record{r}); !builtintest.Lost(err) ||
		!strings.Contains(err.Error(), "permission denied") {
		w.Errorf("without a privilege: %v", err)
	}
	w.exec("DROP ROLE reader")
}

func createsTogether(w *world) { w.newTables().CheckConcurrent(w) }

func mapping(w *world) { w.newTables().CheckMapping(w) }

func addedColumns(w *world) { w.newTables().CheckAddedColumns(w, func(text string) { w.exec(text) }) }
