package sqlite_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestRowsThatGoUnnamed executes statements that change rows without naming them: the source emits a record for each
// row, or logs a warning.
func TestRowsThatGoUnnamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		want    []string
		warning string
	}{
		"delete of all rows": {"DELETE FROM t",
			[]string{`delete t {"id":1} from {"id":1,"p":1}`, `delete t {"id":2} from {"id":2,"p":2}`}, ""},
		"cascade": {"PRAGMA foreign_keys = ON; DELETE FROM p WHERE id = 1",
			[]string{`delete t {"id":1} from {"id":1,"p":1}`, `delete p {"id":1} from {"id":1}`}, ""},
		"cascade of an update": {"PRAGMA foreign_keys = ON; UPDATE p SET id = 3 WHERE id = 1",
			[]string{`update t {"id":1} from {"id":1,"p":1} to {"id":1,"p":3}`,
				`delete p {"id":1} from {"id":1}`, `create p {"id":3} to {"id":3}`},
			""},
		"dropped": {"DROP TABLE t", nil, "was dropped or renamed"},
		"renamed": {"ALTER TABLE t RENAME TO u",
			[]string{`snapshot u {"id":1} to {"id":1,"p":1}`, `snapshot u {"id":2} to {"id":2,"p":2}`}, "was " +
				"dropped or renamed"},
		// In one transaction, since the source could otherwise take note of the new table before its row.
		"recreated": {"BEGIN; DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE " +
			"CASCADE ON UPDATE CASCADE); INSERT INTO t VALUES (5, 1); COMMIT",
			[]string{`snapshot t {"id":5} to {"id":5,"p":1}`}, "without records of rows deleted in the meantime"},
		"recreated with other columns": {"BEGIN; DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, q); " +
			"INSERT INTO t VALUES (5, 1); COMMIT",
			[]string{`snapshot t {"id":5} to {"id":5,"q":1}`}, "without records of rows " +
				"deleted in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE t (id INTEGER PRIMARY KEY, p "+
				"REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE); INSERT INTO p VALUES (1), (2); INSERT INTO t "+
				"VALUES (1, 1), (2, 2)")
			s := plugintest.NewOpened(w, sqlite.Connector(), "p:source")
			var log wait.Buffer
			s.Ctx = sdk.WithEnv(s.Ctx, &sdk.Env{ConnectorID: "p:source",
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err := s.TryOpen(w.settings("*"), nil); err != nil {
				t.Fatal(err)
			}
			s.Settle(s.Next(4)...)
			w.exec(c.program)
			got := plugintest.Show(s.Next(len(c.want)))
			want := slices.Clone(c.want)
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			wait.For(t, "the warning", func() bool { return strings.Contains(log.String(), c.warning) })
			if c.warning == "" && strings.Contains(log.String(), "WARN") {
				t.Errorf("the log has\n%s", log.String())
			}
		})
	}
}
