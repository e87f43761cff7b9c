package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Salvaged reports how many rows of a table could be read.
type Salvaged struct {
	Table string `json:"table"`
	Rows  int    `json:"rows"`
	// Error is the reason why the other rows could not be read, or "" if all were.
	Error string `json:"error,omitempty"`
}

// Salvage copies the readable rows of a damaged file into the file at to, which must have the tables. It replaces
// existing rows with the same key. Then it executes the statements in mend, which delete rows without their parent
// rows, and marks a file with generations as a backup.
func (f File) Salvage(ctx context.Context, to string, mend []string) (all []Salvaged, err error) {
	source, err := open(f.Path, "mode=ro&_query_only=1")
	if err != nil {
		return nil, err
	}
	defer source.Close()
	target, err := open(to, "mode=rw&_synchronous=FULL&_journal_mode=WAL&_foreign_keys=off")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := source.ExecContext(ctx, `SELECT count(*) FROM sqlite_schema`); err != nil {
		return nil, fmt.Errorf("nothing of %q can be read: %w; restore a backup with conduit store "+
			"restore FILE", f.Path, err)
	}
	tables, err := tablesOf(ctx, target)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		s := salvager{source: source, target: target, table: t, from: t.name}
		if former := f.Former[t.name]; former != "" && has(ctx, source, former) {
			s.from = former
		}
		one, err := s.run(ctx)
		if err != nil {
			return all, fmt.Errorf("cannot write table %s: %w", t.name, err)
		}
		all = append(all, one)
	}
	for _, statement := range mend {
		if _, err := target.ExecContext(ctx, statement); err != nil {
			return all, err
		}
	}
	return all, f.mark(ctx, target)
}

// has reports whether a file has a table.
func has(ctx context.Context, db *sql.DB, table string) bool {
	columns, err := findings(ctx, db, `SELECT name FROM pragma_table_xinfo('`+table+`')`)
	return err == nil && len(columns) > 0
}

// table is a table to fill.
type table struct {
	name    string
	columns []string // writable columns
	key     []string // SQL columns that give the order of rows in the file
}

// tablesOf returns the tables to fill. It leaves out the applied migrations, which the new file already has.
func tablesOf(ctx context.Context, db *sql.DB) (all []table, err error) {
	names, err := findings(ctx, db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE `+
		`'sqlite_%' AND name <> 'migrations' ORDER BY rowid`)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t := table{name: name}
		if t.columns, err = findings(ctx, db,
			`SELECT name FROM pragma_table_xinfo('`+name+`') WHERE hidden = 0 ORDER BY cid`); err != nil {
			return nil, err
		}
		t.key, err = findings(ctx, db, `SELECT iif(t.wr, '"' || c.name || '"', 'rowid') FROM pragma_table_list('`+name+
			`') t, pragma_table_xinfo('`+name+`') c WHERE c.pk > 0 ORDER BY c.pk`)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// salvager fills one table.
type salvager struct {
	source, target *sql.DB
	table          table
	from           string // name of the table in source
}

// run reads the table from its start and, if that fails at a row, from its end.
func (s *salvager) run(ctx context.Context) (one Salvaged, err error) {
	one.Table = s.table.name
	there, unreadable := findings(ctx, s.source, `SELECT name FROM pragma_table_xinfo('`+s.from+
		`') WHERE hidden = 0`)
	columns := slices.DeleteFunc(slices.Clone(s.table.columns), func(c string) bool {
		return !slices.Contains(there, c)
	})
	if unreadable != nil || len(columns) == 0 {
		if one.Error = "it is not in the file"; unreadable != nil {
			one.Error = unreadable.Error()
		}
		return one, nil
	}
	tx, err := s.target.BeginTx(ctx, nil)
	if err != nil {
		return one, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	for _, order := range []string{" ASC", " DESC"} {
		unreadable, err := s.pass(ctx, tx, columns, order)
		if err != nil {
			return one, err
		}
		if unreadable == nil {
			break
		}
		one.Error = unreadable.Error()
	}
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM "`+s.table.name+`"`).Scan(&one.Rows); err != nil {
		return one, err
	}
	return one, tx.Commit()
}

// pass copies rows in one order, until a row cannot be read, or was already copied in the other order.
func (s *salvager) pass(ctx context.Context, tx *sql.Tx, columns []string, order string) (unreadable, err error) {
	list := `"` + strings.Join(columns, `", "`) + `"`
	by := strings.Join(s.table.key, order+`, `) + order
	rows, unreadable := s.source.QueryContext(ctx, `SELECT `+list+` FROM "`+s.from+`" ORDER BY `+by)
	if unreadable != nil {
		return unreadable, nil
	}
	defer rows.Close()
	insert := `INSERT OR REPLACE INTO "` + s.table.name + `" (` + list + `) VALUES (?` + strings.Repeat(`, ?`,
		len(columns)-1) + `)`
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if unreadable := rows.Scan(into...); unreadable != nil {
			return unreadable, nil
		}
		if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
			if e := (sqlite3.Error{}); errors.As(err, &e) && e.Code == sqlite3.ErrConstraint {
				unreadable = err // a row with invalid bytes
				continue
			}
			return nil, err
		}
	}
	return errors.Join(unreadable, rows.Err()), nil
}
