package sqlsink

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect has the features in which databases differ.
type Dialect interface {
	// Open opens the database. The caller uses one connection.
	Open(ctx context.Context) (*sql.DB, error)
	// Quote returns name as a quoted SQL identifier.
	Quote(name string) string
	// Describe returns the description of a table. A table without columns does not exist. Without a schema, the table
	// is in the current database of the connection.
	Describe(ctx context.Context, conn *sql.Conn, schema, name string) (Description, error)
	// HasSchema reports whether the database has a schema of this name.
	HasSchema(ctx context.Context, conn *sql.Conn, schema string) (bool, error)
	// Grammar returns the grammar of table definitions.
	Grammar(ctx context.Context, conn *sql.Conn) (*Grammar, error)
	// Value converts v to the value that the driver receives for column. v is not nil.
	Value(v any, column Column) (any, error)
	// Upsert returns the end of an INSERT that updates the columns if a row with the key exists. Key and columns are
	// quoted. If ok is false, the caller updates rows first, and inserts the rows that do not exist.
	Upsert(d *Description, key, columns []string) (end string, ok bool)
	// Rows returns the maximum number of rows per statement for a number of columns.
	Rows(columns int) int
	// Begin returns the statement that begins a transaction. Positions returns the SQL after CREATE TABLE and the name
	// of a table of positions, whose columns are connector, batch and hashes.
	Begin() string
	Positions() string
	// Transient and Refused are as in Database.
	Transient(err error) bool
	Refused(err error) bool
	// Missing reports whether err says that a table does not exist.
	Missing(err error) bool
}

// Description describes a table.
type Description struct {
	Columns map[string]Column // columns that are not generated
	Unique  [][]string        // columns of each unique index, including the primary key, sorted
}

// Column is a column of a table.
type Column struct{ Type string }

// DB implements sqlsink.Database.
type DB struct {
	Dialect   Dialect
	Positions string // table of positions, as in the setting

	db         *sql.DB
	conn       *sql.Conn            // nil without a connection
	statements map[string]*sql.Stmt // by SQL
	tables     map[string]*table    // by name in the setting table
	described  map[*table]*Description
	args       []any
}

type (
	table  = Table[Column]
	change = Change[Column]
)

// Connect implements sqlsink.Database.
func (d *DB) Connect(ctx context.Context, ledger *Ledger) (err error) {
	if d.conn != nil {
		return nil
	}
	if d.db, err = d.Dialect.Open(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.Disconnect()
		}
	}()
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	d.statements, d.tables, d.described = map[string]*sql.Stmt{}, map[string]*table{}, map[*table]*Description{}
	if ledger == nil {
		return nil
	}
	return d.read(ctx, ledger)
}

// Disconnect implements sqlsink.Database.
func (d *DB) Disconnect() {
	for _, s := range d.statements {
		_ = s.Close()
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
	if d.db != nil {
		_ = d.db.Close()
	}
	d.db, d.conn, d.statements = nil, nil, nil
}

// Transient implements sqlsink.Database.
func (d *DB) Transient(err error) bool { return d.Dialect.Transient(err) }

// Refused implements sqlsink.Database.
func (d *DB) Refused(err error) bool { return d.Dialect.Refused(err) }

// name quotes name or schema.name.
func (d *DB) name(name string) string {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return d.Dialect.Quote(schema) + "." + d.Dialect.Quote(table)
	}
	return d.Dialect.Quote(name)
}

// Table implements sqlsink.Database. A name is schema.name, or a table name that contains a dot.
func (d *DB) Table(ctx context.Context, name string) (*table, error) {
	if t := d.tables[name]; t != nil {
		return t, nil
	}
	schema, rest, dotted := strings.Cut(name, ".")
	for _, in := range []bool{true, false} {
		if in && !dotted {
			continue
		}
		quoted, table := d.Dialect.Quote(name), name
		if in {
			quoted, table = d.name(name), rest
		} else {
			schema = ""
		}
		found, err := d.Dialect.Describe(ctx, d.conn, schema, table)
		if err != nil {
			return nil, fmt.Errorf("cannot look up table %s: %w", name, err)
		}
		if len(found.Columns) > 0 {
			t := &Table[Column]{SQL: quoted, Columns: found.Columns}
			d.tables[name], d.described[t] = t, &found
			return t, nil
		}
	}
	return nil, nil
}

// Reread implements sqlsink.Database.
func (d *DB) Reread(ctx context.Context, name string, t *table) error {
	delete(d.tables, name)
	now, err := d.Table(ctx, name)
	if err != nil || now == nil {
		return err
	}
	t.Columns = now.Columns
	d.tables[name], d.described[t] = t, d.described[now]
	delete(d.described, now)
	return nil
}

// Statement implements sqlsink.Database. A name with a dot is schema.name if there is such a schema.
func (d *DB) Statement(ctx context.Context, t *NewTable) (string, error) {
	grammar, err := d.Dialect.Grammar(ctx, d.conn)
	if err != nil {
		return "", fmt.Errorf("cannot look up collations: %w", err)
	}
	if schema, name, dotted := strings.Cut(t.Name, "."); dotted {
		has, err := d.Dialect.HasSchema(ctx, d.conn, schema)
		if err != nil {
			return "", fmt.Errorf("cannot look up schema %s: %w", schema, err)
		}
		if has {
			return t.Statement(grammar, schema, name)
		}
	}
	return t.Statement(grammar, "", t.Name)
}

// Create implements sqlsink.Database.
func (d *DB) Create(ctx context.Context, statement string) error { return d.execute(ctx, statement) }

// Commit implements sqlsink.Database.
func (d *DB) Commit(ctx context.Context, groups [][]*change, ledger *Ledger, hashes []byte) error {
	if err := d.execute(ctx, d.Dialect.Begin()); err != nil {
		return fmt.Errorf("cannot begin a transaction: %w", err)
	}
	err := d.apply(ctx, groups)
	if err == nil && hashes != nil {
		err = d.note(ctx, ledger, hashes)
	}
	if err == nil {
		if err = d.execute(ctx, "COMMIT"); err == nil {
			return nil
		}
		err = fmt.Errorf("cannot commit: %w", err)
	}
	if rollback := d.execute(context.WithoutCancel(ctx), "ROLLBACK"); rollback != nil {
		d.Disconnect()
	}
	clear(d.tables) // a table may have changed; the next attempt describes it again
	clear(d.described)
	return err
}

func (d *DB) apply(ctx context.Context, groups [][]*change) error {
	for _, group := range groups {
		if err := d.applyGroup(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) applyGroup(ctx context.Context, group []*change) error {
	first := group[0]
	if first.Kind == Remove {
		return d.remove(ctx, group)
	}
	if first.Kind == Insert {
		return d.insert(ctx, group, "")
	}
	description := d.described[first.Table]
	if !slices.ContainsFunc(description.Unique, func(u []string) bool { return slices.Equal(u, first.Key) }) {
		return Refuse("cannot write to table %s: add a primary key or a unique index on its columns (%s), which are "+
			"the key of the records", first.Table.SQL, strings.Join(first.Key, ", "))
	}
	if first.Kind == Upsert {
		others := slices.DeleteFunc(slices.Clone(first.Columns), func(c string) bool {
			return slices.Contains(first.Key, c)
		})
		if end, ok := d.Dialect.Upsert(description, d.quoteAll(first.Key), d.quoteAll(others)); ok {
			return d.insert(ctx, group, end)
		}
	}
	return d.update(ctx, group)
}

func (d *DB) quoteAll(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = d.Dialect.Quote(n)
	}
	return all
}

// insert inserts rows, many per statement.
func (d *DB) insert(ctx context.Context, group []*change, end string) error {
	first := group[0]
	row := "(" + strings.Repeat("?, ", len(first.Columns)-1) + "?)"
	head := "INSERT INTO " + first.Table.SQL + " (" + strings.Join(d.quoteAll(first.Columns), ", ") + ") VALUES "
	for rows := range slices.Chunk(group, d.Dialect.Rows(len(first.Columns))) {
		d.args = d.args[:0]
		for _, c := range rows {
			if err := d.bind(c, first.Columns); err != nil {
				return err
			}
		}
		if _, err := d.run(ctx, first, head+strings.Repeat(row+", ", len(rows)-1)+row+end); err != nil {
			return err
		}
	}
	return nil
}

// update updates rows. It inserts missing rows, except for Mark.
func (d *DB) update(ctx context.Context, group []*change) error {
	first := group[0]
	var sets []string
	others := slices.DeleteFunc(slices.Clone(first.Columns), func(c string) bool {
		return slices.Contains(first.Key, c)
	})
	for _, c := range others {
		sets = append(sets, d.Dialect.Quote(c)+" = ?")
	}
	if len(sets) == 0 {
		others, sets = first.Key[:1], []string{d.Dialect.Quote(first.Key[0]) + " = ?"}
	}
	statement := "UPDATE " + first.Table.SQL + " SET " + strings.Join(sets, ", ") + " WHERE " + d.where(first.Key)
	for _, c := range group {
		d.args = d.args[:0]
		if err := errors.Join(d.bind(c, others), d.bind(c, first.Key)); err != nil {
			return err
		}
		matched, err := d.run(ctx, first, statement)
		if err == nil && matched == 0 && first.Kind != Mark {
			err = d.insert(ctx, []*change{c}, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes rows, many per statement.
func (d *DB) remove(ctx context.Context, group []*change) error {
	first := group[0]
	where := "(" + d.where(first.Key) + ")"
	for rows := range slices.Chunk(group, min(100, d.Dialect.Rows(len(first.Key)))) {
		d.args = d.args[:0]
		for _, c := range rows {
			if err := d.bind(c, first.Key); err != nil {
				return err
			}
		}
		if _, err := d.run(ctx, first, "DELETE FROM "+first.Table.SQL+" WHERE "+strings.Repeat(where+" OR ",
			len(rows)-1)+where); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) where(key []string) string {
	return strings.Join(d.quoteAll(key), " = ? AND ") + " = ?"
}

// bind appends the values of columns to the arguments.
func (d *DB) bind(c *change, columns []string) error {
	for _, name := range columns {
		v, err := plain(c.Values[name])
		if err == nil && v != nil {
			v, err = d.Dialect.Value(v, c.Table.Columns[name])
		}
		if err != nil {
			return Refuse("cannot write a %T to column %s: %w", c.Values[name], name, err)
		}
		d.args = append(d.args, v)
	}
	return nil
}

// run runs a statement with the arguments, and returns the number of matched rows.
func (d *DB) run(ctx context.Context, c *change, text string) (matched int64, err error) {
	result, err := d.prepared(ctx, text, d.args...)
	if err != nil {
		return 0, fmt.Errorf("cannot write to table %s: %w", c.Table.SQL, err)
	}
	return result.RowsAffected()
}

// maxStatements bounds the number of prepared statements.
const maxStatements = 100

func (d *DB) prepared(ctx context.Context, text string, args ...any) (sql.Result, error) {
	s := d.statements[text]
	if s == nil {
		if len(d.statements) >= maxStatements {
			for k, old := range d.statements {
				_ = old.Close()
				delete(d.statements, k)
			}
		}
		var err error
		if s, err = d.conn.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
		d.statements[text] = s
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil { // a server may keep data sent to the statement
		_ = s.Close()
		delete(d.statements, text)
	}
	return result, err
}

func (d *DB) execute(ctx context.Context, text string, args ...any) error {
	_, err := d.conn.ExecContext(ctx, text, args...)
	return err
}

// Indexes returns the columns of each index. The query selects the names of an index and of a column in it, ordered by
// both.
func Indexes(ctx context.Context, conn *sql.Conn, query string, args ...any) (all [][]string, err error) {
	last := ""
	err = EachRow(ctx, conn, query, func(rows *sql.Rows) error {
		var index, column string
		if err := rows.Scan(&index, &column); err != nil {
			return err
		}
		if index != last || all == nil {
			all, last = append(all, nil), index
		}
		all[len(all)-1] = append(all[len(all)-1], column)
		return nil
	}, args...)
	return all, err
}

// EachRow calls do for each row of a query to a *sql.DB or a *sql.Conn, until do fails. It returns the error of do or
// of the query.
func EachRow(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, do func(*sql.Rows) error, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
