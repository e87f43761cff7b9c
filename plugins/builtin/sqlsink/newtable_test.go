package sqlsink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// creator is a database without tables. It keeps the statements that create one.
type creator struct {
	database
	exists    bool
	meanwhile bool  // another connector creates the table just before Create
	fails     error // error of Create
	created   []string
	looked    int
}

func (d *creator) Table(ctx context.Context, name string) (*sqlsink.Table[int], error) {
	if d.looked++; !d.exists {
		return nil, nil
	}
	return d.database.Table(ctx, name)
}

func (d *creator) Statement(_ context.Context, t *sqlsink.NewTable) (string, error) {
	return t.Statement(&sqlsink.Grammar{
		Quote: func(name string) string { return "<" + name + ">" },
		Type:  func(t sqlsink.Type, keys int) string { return fmt.Sprintf("%d/%d", t.Name, keys) },
		End:   ";",
	}, "", t.Name)
}

func (d *creator) Create(_ context.Context, statement string) error {
	d.created = append(d.created, statement)
	d.exists = d.fails == nil || d.meanwhile
	return d.fails
}

func (d *creator) open(t *testing.T, s sqlsink.Settings) func(...record.Record) (int, error) {
	t.Helper()
	w := &sqlsink.Writer[int]{Database: d}
	s.Table = "t"
	if err := w.Configure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler)})
	if err := w.Open(ctx); err != nil {
		t.Fatal(err)
	}
	return func(all ...record.Record) (int, error) { return w.Write(ctx, all) }
}

func numbered(n int) record.Record {
	return plugintest.Row(n, record.OperationCreate, map[string]any{"n": n}, map[string]any{"n": n})
}

// TestTableIsCreatedOnce checks that only the first of many writes creates the table, with integers in the key.
func TestTableIsCreatedOnce(t *testing.T) {
	d := &creator{}
	write := d.open(t, sqlsink.Settings{Evolution: "create"})
	for i := range 10 {
		if n, err := write(numbered(i), numbered(100+i)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	want := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS <t> (<n> %d/1 NOT NULL, PRIMARY KEY (<n>));", sqlsink.Long)}
	if d.committed != 20 || !slices.Equal(d.created, want) {
		t.Errorf("%d records, created %q", d.committed, d.created)
	}
}

// TestTableCreatedMeanwhile checks that Create may fail if another connector creates the table at the same time.
func TestTableCreatedMeanwhile(t *testing.T) {
	d := &creator{fails: errors.New("it exists"), meanwhile: true}
	if n, err := d.open(t, sqlsink.Settings{Evolution: "create"})(numbered(1)); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	d = &creator{fails: errors.New("no permission")}
	if n, err := d.open(t, sqlsink.Settings{Evolution: "create"})(numbered(1)); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "cannot create table t: no permission") {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestTableIsNotCreated refuses records for a missing table unless the setting allows to create it.
func TestTableIsNotCreated(t *testing.T) {
	d := &creator{}
	n, err := d.open(t, sqlsink.Settings{Evolution: "refuse"})(numbered(1))
	if n != 0 || err == nil || !strings.Contains(err.Error(), "schema.evolution to create. To create it, run: CREATE") ||
		len(d.created) > 0 {
		t.Errorf("wrote %d, created %q: %v", n, d.created, err)
	}
}
