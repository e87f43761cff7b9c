package sqlsink_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var errLost, errDead = errors.New("lost"), errors.New("dead")

// database loses its connection in a number of transactions. A lost connection fails permanently.
type database struct {
	lose          int
	alive, usable bool
	committed     int
	columns       []string // only n if empty
	table         *sqlsink.Table[int]
}

func (d *database) Connect(context.Context, *sqlsink.Ledger) error {
	if !d.alive {
		d.alive, d.usable = true, true
	}
	return nil
}

func (d *database) Disconnect() { d.alive = false }

func (d *database) Table(context.Context, string) (*sqlsink.Table[int], error) {
	if d.table != nil {
		return d.table, nil
	}
	t := &sqlsink.Table[int]{SQL: "t", Columns: map[string]int{"n": 0}}
	for _, c := range d.columns {
		t.Columns[c] = 0
	}
	d.table = t
	return t, nil
}

func (d *database) Statement(context.Context, *sqlsink.NewTable) (string, error) { return "", errDead }
func (d *database) Create(context.Context, string) error                         { return errDead }

func (d *database) Commit(_ context.Context, groups [][]*sqlsink.Change[int], _ *sqlsink.Ledger, _ []byte) error {
	if !d.usable {
		return errDead
	}
	if d.lose > 0 {
		d.lose--
		d.usable = false
		return errLost
	}
	for _, g := range groups {
		d.committed += len(g)
	}
	return nil
}

func (d *database) Transient(err error) bool { return errors.Is(err, errLost) }
func (d *database) Refused(error) bool       { return false }

// TestLostConnections checks that after any number of lost connections the next call has a new one.
func TestLostConnections(t *testing.T) {
	for lose := range 8 {
		synctest.Test(t, func(t *testing.T) {
			d := &database{lose: lose}
			w := &sqlsink.Writer[int]{Database: d}
			if err := w.Configure(t.Context(), sqlsink.Settings{Table: "t"}); err != nil {
				t.Fatal(err)
			}
			ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler)})
			if err := w.Open(ctx); err != nil {
				t.Fatal(err)
			}
			all := []record.Record{plugintest.Row(1, record.OperationCreate, nil, map[string]any{"n": 1})}
			calls := 0
			for n := 0; n == 0 && calls < 10; calls++ {
				var err error
				if n, err = w.Write(ctx, all); (n == 0) != errors.Is(err, errLost) {
					t.Fatalf("%d lost: wrote %d: %v", lose, n, err)
				}
			}
			if d.committed != 1 || calls != lose/3+1 {
				t.Errorf("%d lost: committed %d records with %d calls", lose, d.committed, calls)
			}
		})
	}
}
