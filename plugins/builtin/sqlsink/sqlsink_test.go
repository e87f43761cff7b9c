package sqlsink_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/csv"
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
	reread        int // number of calls of Reread
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

func (d *database) Reread(_ context.Context, _ string, t *sqlsink.Table[int]) error {
	d.reread++
	for _, c := range d.columns {
		t.Columns[c] = 0
	}
	return nil
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

// TestRereadsColumns checks that columns are read again only for a field that has none, and not for every one.
func TestRereadsColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{}
		w := &sqlsink.Writer[int]{Database: d}
		if err := w.Configure(t.Context(), sqlsink.Settings{Table: "t"}); err != nil {
			t.Fatal(err)
		}
		ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler)})
		if err := w.Open(ctx); err != nil {
			t.Fatal(err)
		}
		write := func(what string, want, reread int, fields ...map[string]any) {
			t.Helper()
			var all []record.Record
			for i, f := range fields {
				all = append(all, plugintest.Row(i, record.OperationCreate, nil, f))
			}
			if n, err := w.Write(ctx, all); n != want || (err == nil) != (want == len(all)) || d.reread != reread {
				t.Errorf("%s: wrote %d of %d with %d lookups, want %d with %d: %v", what, n, len(all), d.reread, want,
					reread, err)
			}
		}
		known, added, other := map[string]any{"n": 1}, map[string]any{"n": 1, "x": 2}, map[string]any{"y": 3}
		write("known columns", 2, 0, known, known)
		write("a field without a column", 1, 1, known, added, known)
		d.columns = []string{"x"}
		write("added just after a lookup", 0, 1, added)
		time.Sleep(2 * time.Second)
		write("added", 3, 2, known, added, known)
		write("a known column", 1, 2, added)
		time.Sleep(2 * time.Second)
		write("many without a column", 0, 3, other, other, other, other)
		write("no fields", 0, 3, map[string]any{})
	})
}

// TestPayloadWithoutFields checks that the refusal of a text has its cause, and no words of Go.
func TestPayloadWithoutFields(t *testing.T) {
	w := &sqlsink.Writer[int]{Database: &database{}}
	if err := w.Configure(t.Context(), sqlsink.Settings{Table: "t"}); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler)})
	if err := w.Open(ctx); err != nil {
		t.Fatal(err)
	}
	const begin = "cannot write to table t: the payload is not an object: it is text "
	for text, want := range map[string]string{"17": "with a JSON number", "[1]": "with a JSON array",
		`"a"`: "with a JSON string", "a,b": "that is not JSON (invalid character 'a' looking for beginning of value)"} {
		r := record.Record{Operation: record.OperationCreate, After: record.Raw([]byte(text))}
		if _, err := w.Write(ctx, []record.Record{r}); err == nil || !strings.HasSuffix(err.Error(), begin+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		r.Metadata.Set(csv.KeyError, "there are 2 columns")
		const cause = "; the source could not read it as CSV (metadata csv.error): there are 2 columns"
		if _, err := w.Write(ctx, []record.Record{r}); err == nil || !strings.HasSuffix(err.Error(), want+cause) {
			t.Errorf("%s: %v, want %s%s", text, err, want, cause)
		}
	}
}

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
