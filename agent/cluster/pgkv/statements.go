package pgkv

import (
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

const (
	tablePrefix    = "conduit-"
	maxIdentifier  = 63  // bytes in the name of a table
	incarnationKey = "i" // its value is created with the table and never changes
)

// statements holds the SQL statements for a cluster. The revision of a row increases with every write and follows the
// clock of the server. So revisions continue when a row is created again, and a standby that was promoted without the
// last writes does not reuse their revisions, as a sequence would. The column xid contains the transaction of the last
// write, for a watch.
type statements struct{ table, channel, find, make, columns, create, update, read, watch string }

func statementsOf(cluster string) statements {
	name := tablePrefix + cluster
	fill := strings.NewReplacer("{table}", pg.Quote(name), "{name}", literal(name), "{quoted}", literal(pg.Quote(name)),
		"{lives}", lives, "{takes}", takes, "{clock}", clock).Replace
	return statements{
		table: pg.Quote(name), channel: pg.Quote(name),
		find: fill(find), make: fill(makeTable), columns: fill(columns), create: fill(create), update: fill(update),
		read: fill(read), watch: fill(watch),
	}
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

const (
	// lives is true for rows that have not expired.
	lives = `(t.expires_at IS NULL OR t.expires_at > clock_timestamp())`
	clock = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	// takes contains the assignments of every write.
	takes = `value = $2, state = $3, revision = greatest(t.revision + 1, ` + clock +
		`), xid = DEFAULT, expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'`

	makeTable = `BEGIN; SELECT pg_advisory_xact_lock(hashtext({name}));
CREATE TABLE IF NOT EXISTS {table} (
	key text COLLATE "C" PRIMARY KEY, value text NOT NULL, state bytea,
	revision bigint NOT NULL DEFAULT {clock}, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), expires_at timestamptz
) WITH (fillfactor = 50);
INSERT INTO {table} (key, value) VALUES ('i', gen_random_uuid()::text) ON CONFLICT DO NOTHING;
COMMIT`

	find = `SELECT 1 WHERE to_regclass({quoted}) IS NOT NULL`

	columns = `SELECT c.relkind, c.relpersistence, c.relrowsecurity, c.relhastriggers, coalesce((
	SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attname) FROM pg_attribute
	WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped), ''), coalesce((
	SELECT string_agg(attname, ', ') FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
	WHERE indrelid = c.oid AND indisprimary), '')
FROM pg_class c WHERE c.oid = {quoted}::regclass`

	create = `INSERT INTO {table} AS t (key, value, state, revision, expires_at)
SELECT $1, $2, $3, {clock}, clock_timestamp() + $4::bigint * interval '1 microsecond'
FROM {table} AS i WHERE i.key = 'i' AND i.value = $5
ON CONFLICT (key) DO UPDATE SET {takes} WHERE NOT {lives}
RETURNING revision, pg_notify({name}, '')`

	// A change of a checkpoint waits for the next poll, because a notification takes a lock of the database.
	update = `UPDATE {table} AS t SET {takes} FROM {table} AS before, {table} AS i
WHERE t.key = $1 AND t.revision = $6 AND {lives} AND before.key = $1 AND i.key = 'i' AND i.value = $5
RETURNING t.revision, CASE WHEN before.state IS NOT DISTINCT FROM $3 THEN pg_notify({name}, '') END`

	read = `SELECT key, value, state, revision FROM {table} AS t WHERE key IN ($1, 'i') AND {lives}`

	// The last poll saw every transaction before the oldest running one, whatever order they ended in.
	watch = `SELECT t.key, t.value, t.revision, pg_snapshot_xmin(pg_current_snapshot())
FROM {table} AS t WHERE t.key = 'i' OR t.xid >= $1::xid8 AND {lives} ORDER BY t.revision`
)
