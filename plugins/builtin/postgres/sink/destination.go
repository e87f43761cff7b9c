// Package sink is the destination of the postgres connector.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// destinationSettings are those of the destination. url and table are Conduit's.
type destinationSettings struct {
	URL           string `json:"url" validate:"required" desc:"How to connect: postgres://user:password@host:5432/database, or key=value pairs. TLS as with libpq: sslmode, sslrootcert, sslcert, sslkey."`
	Table         string `json:"table" default:"{{ index .Metadata \"opencdc.collection\" }}" desc:"Table to write to, name or schema.name; a template when it has {{."`
	PositionTable string `json:"positionTable" validate:"regex=^([A-Za-z_][A-Za-z0-9_$]*([.][A-Za-z_][A-Za-z0-9_$]*)?)?$" desc:"Table, made if it does not exist, in which the transaction that writes records notes their positions: then each has its effect exactly once, also without a key. Empty: at least once, exactly once with a key."`
}

// Destination writes records to tables.
type Destination struct {
	sdk.DestinationBase
	settings  destinationSettings
	id        string // of the connector
	log       *slog.Logger
	template  *template.Template
	timeLimit template.TimeLimit

	conn    *pgconn.PgConn
	tables  map[string]*target // by name as the setting table gives it
	ledger  *ledger            // nil without a position table
	scratch []byte
	rows    []byte // of a COPY
}

// Parameters implements sdk.Destination.
func (d *Destination) Parameters() sdk.Parameters { return sdk.ParametersOf(destinationSettings{}) }

// Configure implements sdk.Destination.
func (d *Destination) Configure(ctx context.Context, given map[string]string) error {
	if err := sdk.Decode(given, &d.settings); err != nil {
		return err
	}
	if err := pg.CheckFiles(ctx, d.settings.URL); err != nil {
		return err
	}
	if _, err := pg.ParseConfig(d.settings.URL); err != nil {
		return sdk.SettingError{Setting: "url", Message: err.Error()}
	}
	if strings.Contains(d.settings.Table, "{{") {
		t, err := template.Parse(d.settings.Table, template.Strict)
		if err != nil {
			return sdk.SettingError{Setting: "table", Message: err.Error()}
		}
		d.template = t
	}
	return nil
}

// Open implements sdk.Destination.
func (d *Destination) Open(ctx context.Context) error {
	env := sdk.EnvFrom(ctx)
	d.id, d.log = env.ConnectorID, env.Logger
	return d.reopen(ctx)
}

// reopen connects, and reads what the server knows of positions.
func (d *Destination) reopen(ctx context.Context) error {
	pg.Close(d.conn)
	d.conn, d.tables, d.ledger = nil, map[string]*target{}, nil
	conn, err := pg.Connect(ctx, d.settings.URL, pg.Styles)
	if err != nil {
		return err
	}
	d.conn = conn
	if d.settings.PositionTable == "" {
		return nil
	}
	d.ledger = &ledger{table: sqlName(d.settings.PositionTable), connector: d.id}
	return d.ledger.open(ctx, conn)
}

// sqlName returns name or schema.name as SQL has it.
func sqlName(name string) string {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return pg.Quote(schema) + "." + pg.Quote(table)
	}
	return pg.Quote(name)
}

// maxTries is how often a write is tried on a new connection before the pipeline is to wait.
const maxTries = 3

// Write implements sdk.Destination. All records are written in one transaction. One that the
// server refuses is found by halves, and those before it are written.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	var wait pg.Backoff
	for try := 1; ; try++ {
		var n int
		var err error
		if d.conn == nil || d.conn.IsClosed() {
			err = d.reopen(ctx)
		}
		if err == nil {
			n, err = d.writeHalves(ctx, records)
		}
		if err == nil || n > 0 || isRefusal(err) {
			if err != nil && !isRefusal(err) {
				err = sdk.Unavailable(err)
			}
			return n, err
		}
		if try == maxTries || !pg.Transient(err) {
			return 0, sdk.Unavailable(err)
		}
		d.log.Warn("cannot write: trying again", "err", err)
		pg.Close(d.conn)
		d.conn = nil
		if err := wait.Wait(ctx); err != nil {
			return 0, err
		}
	}
}

// writeHalves writes the records, or those before the first that is refused.
func (d *Destination) writeHalves(ctx context.Context, records []record.Record) (int, error) {
	err := d.transaction(ctx, records)
	if err == nil {
		return len(records), nil
	}
	if !isRefusal(err) || len(records) == 1 {
		return 0, err
	}
	half := len(records) / 2
	n, err := d.writeHalves(ctx, records[:half])
	if err != nil {
		return n, err
	}
	m, err := d.writeHalves(ctx, records[half:])
	return n + m, err
}

// refusal is an error that a record is to blame for.
type refusal struct{ error }

// Unwrap returns the cause.
func (r refusal) Unwrap() error { return r.error }

// refused matches the SQLSTATEs that a record is to blame for: data, constraints, names, and what
// triggers raise.
var refused = regexp.MustCompile(`^(21|22|23|42|44|P0)`)

func isRefusal(err error) bool {
	if errors.As(err, &refusal{}) {
		return true
	}
	c := pg.Code(err)
	return c != pg.CodePrivilege && refused.MatchString(c)
}

// tableOf returns the name of the table of a record.
func (d *Destination) tableOf(r *record.Record) (string, error) {
	if d.template == nil {
		return d.settings.Table, nil
	}
	name, err := d.template.Append(&d.timeLimit, d.scratch[:0], r)
	d.scratch = name[:0:cap(name)]
	if err != nil {
		return "", refusal{fmt.Errorf("cannot determine the table: %w", err)}
	}
	if len(name) == 0 {
		return "", refusal{fmt.Errorf("cannot determine the table: the setting table gives nothing for this record")}
	}
	return string(name), nil
}

// Teardown implements sdk.Destination.
func (d *Destination) Teardown(context.Context) error {
	pg.Close(d.conn)
	return nil
}

// LifecycleOnCreated implements sdk.Destination: positions of a former connector of this id are
// none of this one's.
func (d *Destination) LifecycleOnCreated(ctx context.Context, given map[string]string) error {
	return d.forget(ctx, given)
}

// LifecycleOnDeleted implements sdk.Destination.
func (d *Destination) LifecycleOnDeleted(ctx context.Context, given map[string]string) error {
	return d.forget(ctx, given)
}

func (d *Destination) forget(ctx context.Context, given map[string]string) error {
	var s destinationSettings
	if err := sdk.Decode(given, &s); err != nil {
		return err
	}
	if s.PositionTable == "" {
		return nil
	}
	conn, err := pg.Connect(ctx, s.URL, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	l := &ledger{table: sqlName(s.PositionTable), connector: sdk.EnvFrom(ctx).ConnectorID}
	return l.forget(ctx, conn)
}
