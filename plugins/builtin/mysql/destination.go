package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type destinationSettings struct {
	server
	tableSettings
}

// Destination writes records to tables.
type Destination struct{ sqlsink.Destination }

func newDestination() sdk.Destination {
	return &Destination{sqlsink.Destination{Lifecycle: forget}}
}

// Parameters implements sdk.Destination.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions+sqlsink.Descriptions)
}

// Configure implements sdk.Destination.
func (d *Destination) Configure(ctx context.Context, given map[string]string) error {
	db, s, err := parse(given)
	if err != nil {
		return err
	}
	return d.Use(ctx, db, s.tableSettings)
}

func parse(given map[string]string) (*sqlsink.DB, *destinationSettings, error) {
	s := &destinationSettings{}
	if err := sdk.Decode(given, s); err != nil {
		return nil, nil, err
	}
	if _, err := s.config(); err != nil {
		return nil, nil, err
	}
	return &sqlsink.DB{Dialect: &dialect{settings: s}, Positions: s.PositionTable}, s, nil
}

// forget removes the connector from the table of positions, if that table exists.
func forget(ctx context.Context, given map[string]string) error {
	db, _, err := parse(given)
	if err != nil {
		return err
	}
	return db.Forget(ctx, sdk.EnvFrom(ctx).ConnectorID)
}

// dialect implements sqlsink.Dialect.
type dialect struct {
	settings *destinationSettings
	session  session // of the newest connection
}

// session identifies a session of the server. A restarted server reuses ids, but the address does not repeat soon.
type session struct {
	id   int64
	host string // address of this end, as the server sees it
}

// Open implements sqlsink.Dialect. It kills the previous session if the server still has it: the server may not have
// noticed the lost connection, and the session may hold locks.
func (d *dialect) Open(ctx context.Context) (*sql.DB, error) {
	db, err := d.settings.open(ctx)
	if err != nil {
		return nil, err
	}
	var found session
	if d.session.id != 0 && db.QueryRowContext(ctx, sessionQuery+fmt.Sprint(d.session.id)).Scan(&found.id,
		&found.host) == nil && found == d.session {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", found.id)) // it may have ended by itself
	}
	d.session = session{}
	// If this fails, the next Open kills no session.
	_ = db.QueryRowContext(ctx, sessionQuery+"connection_id()").Scan(&d.session.id, &d.session.host)
	return db, nil
}

// Quote implements sqlsink.Dialect.
func (d *dialect) Quote(name string) string { return Quote(name) }

// Describe implements sqlsink.Dialect.
func (d *dialect) Describe(
	ctx context.Context, conn *sql.Conn, schema, name string,
) (found sqlsink.Description, err error) {
	if schema == "" {
		schema = d.settings.Database
	}
	found.Columns = map[string]sqlsink.Column{}
	engine := ""
	err = sqlsink.EachRow(ctx, conn, "SELECT c.column_name, c.data_type, coalesce(t.engine, '') FROM "+
		"information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) "+
		"WHERE c.table_schema = ? AND c.table_name = ? AND c.extra NOT LIKE '%GENERATED'", func(rows *sql.Rows) error {
		var column, declared string
		err := rows.Scan(&column, &declared, &engine)
		found.Columns[column] = sqlsink.Column{Type: strings.ToLower(declared)}
		return err
	}, schema, name)
	if err != nil {
		return found, err
	}
	if d.settings.PositionTable != "" && len(found.Columns) > 0 && engine != "InnoDB" && engine != "" {
		return found,
			fmt.Errorf("its engine is %s, which has no transactions: exactly-once writes need InnoDB", engine)
	}
	// An index on a prefix of a column does not make the whole column unique.
	found.Unique, err = sqlsink.Indexes(ctx, conn,
		"SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? "+
			"AND non_unique = 0 "+
			"AND index_name NOT IN (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND "+
			"table_name = ? AND (sub_part IS NOT NULL OR column_name IS NULL)) "+
			"ORDER BY index_name, BINARY column_name", schema, name, schema, name)
	return found, err
}

// HasSchema implements sqlsink.Dialect.
func (d *dialect) HasSchema(ctx context.Context, conn *sql.Conn, schema string) (has bool, err error) {
	err = conn.QueryRowContext(ctx, "SELECT count(*) > 0 FROM information_schema.schemata WHERE schema_name = ?",
		schema).Scan(&has)
	return has, err
}

// Grammar implements sqlsink.Dialect. Texts are compared by their characters and trailing spaces, so that different
// keys stay different, as far as the server has such a collation.
func (d *dialect) Grammar(ctx context.Context, conn *sql.Conn) (*sqlsink.Grammar, error) {
	var collation string
	err := conn.QueryRowContext(ctx, "SELECT collation_name FROM information_schema.collations WHERE collation_name IN "+
		"('utf8mb4_nopad_bin', 'utf8mb4_0900_bin', 'utf8mb4_bin') ORDER BY length(collation_name) DESC LIMIT 1").
		Scan(&collation)
	return &sqlsink.Grammar{Quote: Quote, Type: newType, Length: utf8.RuneCountInString, MaxLength: 64,
		End: " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE " + collation}, err
}

var types = map[sqlsink.TypeName]string{sqlsink.Bool: "BOOLEAN", sqlsink.Int: "INT", sqlsink.Long: "BIGINT",
	sqlsink.Unsigned: "BIGINT UNSIGNED", sqlsink.Float: "DOUBLE", sqlsink.Number: "DOUBLE", sqlsink.Bytes: "LONGBLOB",
	sqlsink.Time: "DATETIME(6)", sqlsink.Duration: "BIGINT", sqlsink.JSON: "JSON"}

// newType returns the type of a new column. A column of a key needs a maximum length: together, they may have 3072
// bytes.
func newType(t sqlsink.Type, keys int) string {
	const maxDigits, maxScale = 65, 30
	name, ok := types[t.Name]
	switch {
	case t.Name == sqlsink.Decimal && t.Precision <= 0:
		return fmt.Sprintf("DECIMAL(%d, %d)", maxDigits, maxScale)
	case t.Name == sqlsink.Decimal && t.Precision <= maxDigits && t.Scale <= maxScale:
		return fmt.Sprintf("DECIMAL(%d, %d)", t.Precision, t.Scale)
	case keys > 0 && t.Name == sqlsink.Bytes:
		return fmt.Sprintf("VARBINARY(%d)", min(255, 3072/keys))
	case keys > 0 && (!ok || t.Name == sqlsink.JSON):
		return fmt.Sprintf("VARCHAR(%d)", min(255, 3072/4/keys))
	case !ok:
		return "LONGTEXT"
	}
	return name
}

// Value implements sqlsink.Dialect. Times are in UTC, the time zone of the session.
func (d *dialect) Value(v any, column sqlsink.Column) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999"), nil
	case string:
		return timeText(v, column), nil
	}
	return v, nil
}

// timeText returns the text of a time in the format of a column; times in JSON have a time zone.
func timeText(text string, column sqlsink.Column) string {
	switch column.Type {
	case "datetime", "timestamp", "date":
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UTC().Format("2006-01-02 15:04:05.999999")
		}
	}
	return text
}

// Upsert implements sqlsink.Dialect. With several unique indexes an upsert may update the row of another key, so such
// tables need two statements.
func (d *dialect) Upsert(found *sqlsink.Description, key, columns []string) (string, bool) {
	if len(found.Unique) > 1 {
		return "", false
	}
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = VALUES(" + c + ")"
	}
	if len(sets) == 0 {
		sets = []string{key[0] + " = " + key[0]}
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", "), true
}

// Rows implements sqlsink.Dialect: a statement may have at most 65,535 values.
func (d *dialect) Rows(columns int) int { return max(1, min(500, 65535/max(1, columns))) }

// Begin implements sqlsink.Dialect.
func (d *dialect) Begin() string { return "START TRANSACTION" }

// InPlace implements sqlsink.Dialect.
func (d *dialect) InPlace() error { return nil }

// Positions implements sqlsink.Dialect. Ids are ASCII, because a key has at most 767 bytes in MySQL 5.6.
func (d *dialect) Positions() string {
	return "(connector VARCHAR(400) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, batch BIGINT NOT NULL, hashes " +
		"LONGBLOB NOT NULL, PRIMARY KEY (connector, batch)) ENGINE=InnoDB"
}

// Transient implements sqlsink.Dialect.
func (d *dialect) Transient(err error) bool { return transient(err) }

// Refused implements sqlsink.Dialect.
func (d *dialect) Refused(err error) bool { return refused(err) }

// Missing implements sqlsink.Dialect.
func (d *dialect) Missing(err error) bool { return isNumber(err, noSuchTable) }
