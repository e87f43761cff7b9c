package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// destinationSettings are the settings of the destination. url and table have the same names as in Conduit's connector.
type destinationSettings struct {
	// How to connect: postgres://user:password@host:5432/database, or key=value pairs. TLS as with libpq: sslmode,
	// sslrootcert, sslcert, sslkey.
	URL string `json:"url" validate:"required"`
	sqlsink.Settings

	// Time to wait for a response before another connection checks whether the server still works on it. If not, the
	// connection is closed after another half of this time.
	Timeout time.Duration `json:"timeout" default:"20s" validate:"gt=0"`
}

// Destination writes records to tables.
type Destination struct {
	sqlsink.Lifecycle
	sqlsink.Writer[pg.Column]
	database database
}

// New returns a destination.
func New() sdk.Destination { return &Destination{Lifecycle: forget} }

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
	if err := pg.CheckURL(ctx, s.URL); err != nil {
		return err
	}
	d.database = database{url: s.URL, timeout: s.Timeout, positions: sqlName(s.PositionTable),
		positionTable: s.PositionTable[strings.LastIndexByte(s.PositionTable, '.')+1:]}
	d.Database = &d.database
	return d.Writer.Configure(ctx, s.Settings)
}

// Teardown implements sdk.Destination.
func (d *Destination) Teardown(context.Context) error {
	d.database.Disconnect()
	return nil
}

// forget removes the connector from the table of positions, if that table exists.
func forget(ctx context.Context, given map[string]string) error {
	var s destinationSettings
	if err := sdk.Decode(given, &s); err != nil {
		return err
	}
	if s.PositionTable == "" {
		return nil
	}
	conn, err := pg.ConnectGuarded(ctx, s.URL, s.Timeout, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	_, err = pg.Rows(ctx, conn, "DELETE FROM "+sqlName(s.PositionTable)+" WHERE connector = $1",
		sdk.EnvFrom(ctx).ConnectorID)
	if err != nil && pg.Code(err) != pg.CodeUndefinedTable {
		return fmt.Errorf("cannot remove positions from %s: %w", s.PositionTable, err)
	}
	return nil
}

// database implements sqlsink.Database.
type database struct {
	url       string
	timeout   time.Duration
	positions string // name of the table of positions, in SQL syntax
	// the same without its schema and quotes
	positionTable string
	conn          *pgconn.PgConn
	tables        map[string]*table // by name in the setting table
	rows          []byte            // buffer for COPY
}

type (
	table  = sqlsink.Table[pg.Column] // column type names have no modifiers
	change = sqlsink.Change[pg.Column]
)

// Connect implements sqlsink.Database.
func (d *database) Connect(ctx context.Context, ledger *sqlsink.Ledger) error {
	if d.conn != nil && !d.conn.IsClosed() {
		return nil
	}
	d.Disconnect()
	conn, err := pg.ConnectGuarded(ctx, d.url, d.timeout, pg.Styles)
	if err != nil {
		return err
	}
	d.conn, d.tables = conn, map[string]*table{}
	if ledger == nil {
		return nil
	}
	if err := d.read(ctx, ledger); err != nil {
		d.Disconnect()
		return err
	}
	return nil
}

// read creates the table of positions if necessary, and reads it.
func (d *database) read(ctx context.Context, ledger *sqlsink.Ledger) error {
	// Without the privilege to create tables, the table must already exist.
	err := pg.Execute(ctx, d.conn, "CREATE TABLE IF NOT EXISTS "+d.positions+
		" (connector text NOT NULL, batch bigint NOT NULL, hashes bytea NOT NULL, PRIMARY KEY (connector, batch))")
	if err != nil && pg.Code(err) != pg.CodePrivilege {
		return fmt.Errorf("cannot create the position table %s: %w", d.positions, err)
	}
	found, err := pg.Rows(ctx, d.conn, "SELECT batch, encode(hashes, 'hex') FROM "+d.positions+
		" WHERE connector = $1 ORDER BY batch", ledger.Connector)
	if err != nil {
		return fmt.Errorf("cannot read the position table %s: %w", d.positions, err)
	}
	ledger.Clear()
	for _, r := range found {
		number, _ := strconv.ParseInt(r[0], 10, 64)
		hashes, _ := hex.DecodeString(r[1])
		ledger.Add(number, hashes)
	}
	return nil
}

// note returns the statements that store the hashes of a transaction and delete expired ones.
func (d *database) note(ledger *sqlsink.Ledger, hashes []byte) string {
	number, last := ledger.Next(hashes)
	connector := pg.Literal(ledger.Connector)
	sql := fmt.Sprintf("INSERT INTO %s (connector, batch, hashes) VALUES (%s, %d, '\\x%x')", d.positions, connector,
		number, hashes)
	if last >= 0 {
		sql += fmt.Sprintf("; DELETE FROM %s WHERE connector = %s AND batch <= %d", d.positions, connector, last)
	}
	return sql
}

// Disconnect implements sqlsink.Database.
func (d *database) Disconnect() {
	pg.Close(d.conn)
	d.conn = nil
}

// sqlName quotes name or schema.name.
func sqlName(name string) string {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return pg.Quote(schema) + "." + pg.Quote(table)
	}
	return pg.Quote(name)
}

// Transient implements sqlsink.Database.
func (d *database) Transient(err error) bool { return pg.Transient(err) }

// refused matches the SQLSTATEs of errors that the record causes: data, constraints, names, limits such as the number
// of columns, and errors raised by triggers.
var refused = texts.Regexp(`^(21|22|23|42|44|54|P0)`)

// Refused implements sqlsink.Database.
func (d *database) Refused(err error) bool {
	c := pg.Code(err)
	return c != pg.CodePrivilege && refused().MatchString(c)
}
