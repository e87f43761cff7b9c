// Package sqlsink holds the code shared by the destinations of SQL databases. It converts records to changes of tables,
// writes many changes in a transaction, finds the refused record among them, and stores positions for exactly-once
// effect.
package sqlsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Settings are embedded in the settings of a destination.
type Settings struct {
	// Table to write to, name or schema.name; a template when it has {{.
	Table string `json:"table" template:"true" default:"{{ index .Metadata \"opencdc.collection\" }}"`
	// Table, created if it does not exist, in which the transaction that writes records stores their positions, for
	// exactly-once delivery also without a key. Empty: at least once, exactly once with a key.
	PositionTable string `json:"positionTable" validate:"regex=^([A-Za-z_][A-Za-z0-9_$]*([.][A-Za-z_][A-Za-z0-9_$]*)?)?$"`
	// upsert: a record with a key inserts its row or updates it, and one without a key inserts a row. append: every
	// record inserts a row. delete: every record deletes the row with its key.
	Mode string `json:"mode" default:"upsert" validate:"inclusion=upsert|append|delete"`
	// Effect of a delete. apply: it deletes the row; with mode append, it inserts one. ignore: none. soft: the row
	// stays, with true in delete.column.
	Delete string `json:"delete" default:"apply" validate:"inclusion=apply|ignore|soft"`
	// Boolean column for delete: soft. It is true in rows that a delete marked, and false in all others.
	DeleteColumn string `json:"delete.column" literal:"true" default:"deleted"`
	// refuse: records for a missing table are refused, with the statement that creates it. create: the table is
	// created, with the columns of the records, and their key as primary key.
	Evolution string `json:"schema.evolution" default:"refuse" validate:"inclusion=refuse|create"`

	// Columns of the key. Empty: the fields of the record's key.
	Key []string `json:"columns.key" literal:"true"`
	// Column for the field of this name.
	Rename map[string]string `json:"columns.rename.*" literal:"true"`
	// Fields to omit.
	Omit []string `json:"columns.omit" literal:"true"`
	// Text to write to the column of this name.
	Constant map[string]string `json:"columns.constant.*" literal:"true"`
	// Expression for the column of this name, in the language of the processor expr.map: after.price * after.count.
	Expression map[string]string `json:"columns.expression.*"`
}

// Database is the database of a Writer. C describes a column.
type Database[C any] interface {
	// Connect ensures that there is a connection. When it makes a new one, it drops all cached tables and fills ledger.
	// ledger is nil without a table of positions.
	Connect(ctx context.Context, ledger *Ledger) error
	// Disconnect closes the connection, if there is one.
	Disconnect()
	// Table returns the table for the name in a record, or nil if it does not exist.
	Table(ctx context.Context, name string) (*Table[C], error)
	// Reread replaces what t has of the table for the name in a record by its present state. If the table no longer
	// exists, t stays as it is.
	Reread(ctx context.Context, name string, t *Table[C]) error
	// Statement returns the statement that creates a table if it does not exist, or an error from Refuse.
	Statement(ctx context.Context, t *NewTable) (string, error)
	// Create executes a statement from Statement.
	Create(ctx context.Context, statement string) error
	// Commit makes the changes in one transaction, group by group. If there are hashes, it stores them in the ledger.
	Commit(ctx context.Context, groups [][]*Change[C], ledger *Ledger, hashes []byte) error
	// Transient reports whether a retry on another connection may help.
	Transient(err error) bool
	// Refused reports whether the record causes the error.
	Refused(err error) bool
}

// Writer writes records to the tables of a database.
type Writer[C any] struct {
	Database Database[C]

	log       *slog.Logger
	settings  Settings
	template  *template.Template // of the table; nil: the setting is the name
	mapping   *mapping           // nil: columns have the names of the fields
	schemas   *schema.Cache      // nil without a registry
	timeLimit template.TimeLimit
	ledger    *Ledger // nil without a table of positions
	scratch   []byte
}

// Configure checks and keeps the settings.
func (w *Writer[C]) Configure(ctx context.Context, s Settings) (err error) {
	w.settings, w.template = s, nil
	if err := s.checkModes(); err != nil {
		return err
	}
	if w.mapping, err = newMapping(ctx, &s); err != nil {
		return err
	}
	if !strings.Contains(s.Table, "{{") {
		return nil
	}
	t, err := template.Parse(s.Table, template.Strict)
	if err != nil {
		return sdk.SettingError{Setting: "table", Message: err.Error()}
	}
	w.template = t
	return nil
}

// Open connects to the database.
func (w *Writer[C]) Open(ctx context.Context) error {
	env := sdk.EnvFrom(ctx)
	w.log = env.Logger
	if env.Schemas != nil {
		w.schemas = &schema.Cache{Registry: env.Schemas}
	}
	if w.settings.PositionTable != "" {
		w.ledger = &Ledger{Connector: env.ConnectorID}
	}
	return w.Database.Connect(ctx, w.ledger)
}

// maxTries is the number of attempts on new connections before Write returns an unavailable error.
const maxTries = 3

// maxTaken is the number of attempts while another writer uses the numbers in the ledger.
const maxTaken = 100

// Write implements sdk.Destination. It writes all records in one transaction. If the database refuses a record, Write
// finds it by bisection and writes the records before it.
func (w *Writer[C]) Write(ctx context.Context, records []record.Record) (n int, err error) {
	all := identified{records: records}
	if w.ledger != nil {
		all.ids = w.ledger.ids.IDs(records)
		defer func() { w.ledger.ids.Wrote(n, err) }()
	}
	return w.write(ctx, all)
}

// identified holds records and, with a ledger, their ids.
type identified struct {
	records []record.Record
	ids     []common.RecordID
}

// halves splits the records in two.
func (r identified) halves() (first, second identified) {
	half := len(r.records) / 2
	first.records, second.records = r.records[:half], r.records[half:]
	if r.ids != nil {
		first.ids, second.ids = r.ids[:half], r.ids[half:]
	}
	return first, second
}

func (w *Writer[C]) write(ctx context.Context, records identified) (done int, err error) {
	var wait common.Backoff
	for try := 1; ; try++ {
		var n int
		err := w.Database.Connect(ctx, w.ledger)
		if err == nil {
			n, err = w.writeHalves(ctx, records.from(done))
			done += n
		}
		if err == nil || w.refused(err) {
			return done, err
		}
		w.Database.Disconnect() // a retry of this call, or the next call, reconnects and reads the ledger
		if errors.As(err, &taken{}) && ctx.Err() == nil && try < maxTaken {
			continue
		}
		if done > 0 || try >= maxTries || !w.Database.Transient(err) {
			return done, sdk.Unavailable(err)
		}
		w.log.Warn("cannot write, retrying", "err", err)
		if err := wait.Wait(ctx); err != nil {
			return done, err
		}
	}
}

// from returns the records without the first n.
func (r identified) from(n int) identified {
	r.records = r.records[n:]
	if r.ids != nil {
		r.ids = r.ids[n:]
	}
	return r
}

// writeHalves writes the records, or the records before the first refused one.
func (w *Writer[C]) writeHalves(ctx context.Context, all identified) (int, error) {
	err := w.transaction(ctx, all)
	if err == nil {
		return len(all.records), nil
	}
	if !w.refused(err) || len(all.records) == 1 {
		return 0, err
	}
	first, second := all.halves()
	n, err := w.writeHalves(ctx, first)
	if err != nil {
		return n, err
	}
	m, err := w.writeHalves(ctx, second)
	return n + m, err
}

// transaction writes the records in one transaction, with their positions if there is a ledger.
func (w *Writer[C]) transaction(ctx context.Context, records identified) error {
	w.timeLimit = template.TimeLimit{}
	changes, hashes, err := w.changes(ctx, records)
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := w.Database.Commit(ctx, grouped(changes), w.ledger, hashes); err != nil {
		return err
	}
	if w.ledger != nil {
		w.ledger.noted(len(hashes) / idBytes)
	}
	return nil
}

// changes returns the changes of the unwritten records that have an effect, and with a ledger their ids.
func (w *Writer[C]) changes(ctx context.Context, given identified) (all []*Change[C], hashes []byte, err error) {
	records := given.records
	made := make([]Change[C], len(records))
	all = make([]*Change[C], 0, len(records))
	for i := range records {
		if w.ledger != nil && w.ledger.has(given.ids[i]) {
			continue
		}
		if err := w.change(ctx, &made[i], records[i:]); err != nil {
			return nil, nil, err
		}
		if made[i].Table == nil {
			continue
		}
		if all = append(all, &made[i]); w.ledger != nil {
			hashes = append(hashes, given.ids[i][:]...)
		}
	}
	return all, hashes, nil
}

// Refuse returns an error that the record causes.
func Refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

type refusal struct{ error }

// Unwrap returns the cause.
func (r refusal) Unwrap() error { return r.error }

func (w *Writer[C]) refused(err error) bool {
	return errors.As(err, &refusal{}) || !errors.As(err, &blameless{}) && !errors.As(err, &taken{}) &&
		w.Database.Refused(err)
}

// tableOf returns the table name for a record.
func (w *Writer[C]) tableOf(r *record.Record) (string, error) {
	if w.template == nil {
		return w.settings.Table, nil
	}
	name, err := w.template.Append(&w.timeLimit, w.scratch[:0], r)
	w.scratch = name[:0:cap(name)]
	if err != nil {
		return "", Refuse("cannot determine the table: %w", err)
	}
	if len(name) == 0 {
		return "", Refuse("cannot determine the table: the template of table is empty for this record")
	}
	return string(name), nil
}

// Taken marks err as the error of a transaction whose number in the ledger another writer has used, such as a replay of
// dead letters: the ledger has to be read again.
func Taken(err error) error { return taken{err} }

type taken struct{ error }

// Unwrap returns the cause.
func (t taken) Unwrap() error { return t.error }

// Blameless marks err as not caused by a record, whatever Database.Refused returns.
func Blameless(err error) error { return blameless{err} }

type blameless struct{ error }

// Unwrap returns the cause.
func (b blameless) Unwrap() error { return b.error }
