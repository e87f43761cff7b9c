package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type (
	fileSettings  = databaseSettings
	tableSettings = sqlsink.Settings
)

type destinationSettings struct {
	fileSettings
	tableSettings
	// Timeout of the setup SQL.
	SetupTimeout time.Duration `json:"setup.timeout" default:"1m" validate:"gt=0"`
	// SQL that is run whenever the database is opened, such as CREATE TABLE IF NOT EXISTS readings (at TEXT, value
	// REAL).
	Setup string `json:"setup"`
}

// Destination writes records to tables.
type Destination struct{ sqlsink.Destination }

func newDestination() sdk.Destination {
	return &Destination{sqlsink.Destination{Lifecycle: forget}}
}

// Parameters implements sdk.Destination.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+sqlsink.Descriptions)
}

// Configure implements sdk.Destination.
func (d *Destination) Configure(ctx context.Context, given map[string]string) error {
	var s destinationSettings
	if err := sdk.Decode(given, &s); err != nil {
		return err
	}
	if err := s.Check(ctx); err != nil {
		return err
	}
	return d.Use(ctx, &sqlsink.DB{Dialect: &dialect{settings: s}, Positions: s.PositionTable}, s.tableSettings)
}

// forget removes the connector from the table of positions, if that table exists.
func forget(ctx context.Context, given map[string]string) error {
	var s destinationSettings
	if err := sdk.Decode(given, &s); err != nil {
		return err
	}
	if _, err := os.Stat(s.Path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.Setup = ""
	db := &sqlsink.DB{Dialect: &dialect{settings: s}, Positions: s.PositionTable}
	return db.Forget(ctx, sdk.EnvFrom(ctx).ConnectorID)
}

// dialect implements sqlsink.Dialect.
type dialect struct {
	settings destinationSettings
	file     os.FileInfo // of the open database
}

// Open implements sqlsink.Dialect.
func (d *dialect) Open(ctx context.Context) (*sql.DB, error) {
	db, err := d.settings.Open(ctx, true)
	if err != nil {
		return nil, err
	}
	if d.file, err = os.Stat(d.settings.Path); err == nil {
		err = d.setUp(ctx, db)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// InPlace implements sqlsink.Dialect. SQLite keeps writing to a removed file. Its content is lost with the connection.
func (d *dialect) InPlace() error {
	now, err := os.Stat(d.settings.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, d.file) {
		return fmt.Errorf("the database %s: %w", d.settings.Path, errMoved)
	}
	return nil
}

// setUp runs the SQL of the settings, and checks that the table is writable, unless its name is a template.
func (d *dialect) setUp(ctx context.Context, db *sql.DB) error {
	if d.settings.Setup != "" {
		if err := setupDatabase(ctx, db, d.settings.Setup, d.settings.SetupTimeout); err != nil {
			return fmt.Errorf("cannot run the SQL of the setting setup: %w", err)
		}
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if table := d.settings.Table; !strings.Contains(table, "{{") {
		return CheckModules(ctx, conn, strings.TrimPrefix(table, "main."))
	}
	return nil
}

// Quote implements sqlsink.Dialect.
func (d *dialect) Quote(name string) string { return Quote(name) }

// Describe implements sqlsink.Dialect.
func (d *dialect) Describe(
	ctx context.Context, conn *sql.Conn, schema, name string,
) (found sqlsink.Description, err error) {
	if schema != "" && schema != "main" { // attached databases are not allowed
		return found, nil
	}
	rows, err := conn.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden = 0", name)
	if err != nil {
		return found, err
	}
	defer func() { _ = rows.Close() }()
	found.Columns = map[string]sqlsink.Column{}
	var key []string
	for rows.Next() {
		var column, declared string
		var pk int
		if err := rows.Scan(&column, &declared, &pk); err != nil {
			return found, err
		}
		found.Columns[column] = sqlsink.Column{Type: declared}
		if pk > 0 {
			key = append(key, column)
		}
	}
	if err := rows.Err(); err != nil {
		return found, err
	}
	if err := CheckModules(ctx, conn, name); err != nil {
		return found, err
	}
	if slices.Sort(key); len(key) > 0 {
		found.Unique = append(found.Unique, key)
	}
	// ON CONFLICT supports only unique indexes over all rows.
	indexes, err := sqlsink.Indexes(ctx, conn,
		`SELECT i.name, c.name FROM pragma_index_list(?) i, pragma_index_info(i.name) c WHERE i."unique" AND NOT `+
			`i.partial AND c.name IS NOT NULL ORDER BY i.name, c.name`, name)
	found.Unique = append(found.Unique, indexes...)
	return found, err
}

// HasSchema implements sqlsink.Dialect.
func (d *dialect) HasSchema(_ context.Context, _ *sql.Conn, schema string) (bool, error) {
	return schema == "main", nil
}

// types are the types of new columns. Texts of numbers stay texts, because SQLite would store them as floats. A column
// without a type stores values of any type unchanged.
var types = map[sqlsink.TypeName]string{sqlsink.Bool: "BOOLEAN", sqlsink.Int: "INTEGER", sqlsink.Long: "INTEGER",
	sqlsink.Float: "REAL", sqlsink.Decimal: "TEXT", sqlsink.Text: "TEXT", sqlsink.Bytes: "BLOB", sqlsink.Time: "TEXT",
	sqlsink.Duration: "INTEGER", sqlsink.JSON: "TEXT"}

// Grammar implements sqlsink.Dialect.
func (d *dialect) Grammar(context.Context, *sql.Conn) (*sqlsink.Grammar, error) {
	return &sqlsink.Grammar{Quote: Quote, Type: func(t sqlsink.Type, _ int) string { return types[t.Name] }}, nil
}

// Value implements sqlsink.Dialect. A time becomes text in UTC, which SQLite's date functions read and which sorts by
// time.
func (d *dialect) Value(v any, _ sqlsink.Column) (any, error) {
	if t, ok := v.(time.Time); ok {
		return t.UTC().Format("2006-01-02 15:04:05.999999999Z07:00"), nil
	}
	return v, nil
}

// Upsert implements sqlsink.Dialect.
func (d *dialect) Upsert(_ *sqlsink.Description, key, columns []string) (string, bool) {
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = excluded." + c
	}
	end := " ON CONFLICT (" + strings.Join(key, ", ") + ") DO "
	if len(sets) == 0 {
		return end + "NOTHING", true
	}
	return end + "UPDATE SET " + strings.Join(sets, ", "), true
}

// Rows implements sqlsink.Dialect: more than a hundred rows are not faster, and SQLite allows 32,766 values.
func (d *dialect) Rows(columns int) int { return max(1, min(100, 32000/max(1, columns))) }

// Begin implements sqlsink.Dialect: the transaction takes the write lock at its beginning, so that it waits for other
// writers.
func (d *dialect) Begin() string { return "BEGIN IMMEDIATE" }

// Positions implements sqlsink.Dialect.
func (d *dialect) Positions() string {
	return "(connector TEXT NOT NULL, batch INTEGER NOT NULL, hashes BLOB NOT NULL, PRIMARY KEY (connector, batch))"
}

// Transient implements sqlsink.Dialect.
func (d *dialect) Transient(err error) bool { return Transient(err) }

// Refused implements sqlsink.Dialect.
func (d *dialect) Refused(err error) bool { return Refused(err) }

// Missing implements sqlsink.Dialect.
func (d *dialect) Missing(err error) bool {
	return Refused(err) && strings.Contains(err.Error(), "no such table")
}
