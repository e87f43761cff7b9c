package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// currentRows reads the current state of rows and partitions. It opens its session on first use.
type currentRows struct {
	settings *settings
	conn     *pgconn.PgConn
}

func (c *currentRows) close() { pg.Close(c.conn) }

func (c *currentRows) connect(ctx context.Context) (err error) {
	if c.conn != nil && !c.conn.IsClosed() {
		return nil
	}
	if c.conn, err = pg.ConnectGuarded(ctx, c.settings.URL, c.settings.Timeout, pg.Styles); err != nil {
		return err
	}
	if err = pg.Execute(ctx, c.conn, "SET row_security = off"); err != nil {
		return fmt.Errorf("cannot prepare to read rows: %w", err)
	}
	return nil
}

// ancestors returns the partitioned tables above a partition, and none for any other table.
func (c *currentRows) ancestors(ctx context.Context, table uint32) (above []uint32, err error) {
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	id := strconv.FormatUint(uint64(table), 10)
	rows, err := pg.Rows(ctx, c.conn, "SELECT relid::oid FROM pg_catalog.pg_partition_ancestors($1::oid::regclass) "+
		"WHERE relid IS NOT NULL", id)
	if err != nil {
		return nil, fmt.Errorf("cannot look up the parents of partition %s: %w", id, err)
	}
	for _, r := range rows {
		if r[0] != id {
			above = append(above, idOf(r[0]))
		}
	}
	return above, nil
}

// complete fills in the columns of row that the server did not send. It waits until the transaction xid is visible: the
// server sends a transaction a moment before other sessions see it. exists is false if the table no longer has the row.
func (c *currentRows) complete(ctx context.Context, r *relation,
	row pg.Tuple, xid uint32) (exists bool, err error) {
	if err := c.connect(ctx); err != nil {
		return false, err
	}
	for wait := (common.Backoff{}); ; {
		visible, exists, err := c.read(ctx, r, row, xid)
		if err != nil || visible {
			return exists, err
		}
		if err := wait.Wait(ctx); err != nil {
			return false, err
		}
	}
}

// relationQuery finds a table by OID, regardless of the current name.
const relationQuery = `SELECT n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`

// latest is an LSN after every change.
const latest = "FFFFFFFF/FFFFFFFF"

func (c *currentRows) read(ctx context.Context, r *relation,
	row pg.Tuple, xid uint32) (visible, exists bool, err error) {
	found, err := pg.Row(ctx, c.conn, relationQuery, strconv.FormatUint(uint64(r.oid), 10))
	if err != nil {
		return false, false, fmt.Errorf("cannot look up table %s: %w", r.id(), err)
	}
	if found == nil {
		return true, false, nil // the table was dropped, and its rows with it
	}
	table := &pg.Table{Schema: found[0], Name: found[1], Partitions: found[2] == "p"}
	sql, keys, types := currentRowQuery(table.Only(), r, row)
	result := c.conn.ExecParams(ctx, sql, keys, types, nil, nil).Read()
	if pg.Code(result.Err) == pg.CodeUndefinedTable {
		return false, false, nil // renamed or dropped meanwhile
	}
	if result.Err != nil {
		return false, false, unreadable(result.Err, r, table)
	}
	if len(result.Rows) != 1 {
		return false, false, fmt.Errorf("cannot read a row of table %s: the server returned %d rows instead of 1",
			r.id(), len(result.Rows))
	}
	values := result.Rows[0]
	if !parseSeen(&seen{Snapshot: string(values[0]), Until: latest}).contains(xid, 0) {
		return false, false, nil
	}
	if values[1] == nil {
		return true, false, nil
	}
	fill(row, values[2:])
	return true, true, nil
}

// currentRowQuery returns the query, with its arguments, for the unsent columns of the row with the key of row. Its
// result includes the snapshot of the query itself.
func currentRowQuery(table string, r *relation, row pg.Tuple) (sql string, keys [][]byte, types []uint32) {
	columns, conditions := []string{"true AS found"}, []string(nil)
	for i := range row {
		if row[i].Kind == pg.Unchanged {
			columns = append(columns, pg.Quote(r.columns[i].Name))
		}
	}
	for _, k := range r.keys {
		keys, types = append(keys, row[k].Text), append(types, r.columns[k].OID)
		conditions = append(conditions, fmt.Sprintf("%s = $%d", pg.Quote(r.columns[k].Name), len(keys)))
	}
	return "SELECT pg_catalog.txid_current_snapshot(), t.* FROM (SELECT 1) one LEFT JOIN " +
		"(SELECT " + strings.Join(columns, ", ") +
		" FROM " + table + " WHERE " + strings.Join(conditions, " AND ") + ") t ON true", keys, types
}

// fill sets the unsent columns of row to values.
func fill(row pg.Tuple, values [][]byte) {
	next := 0
	for i := range row {
		if row[i].Kind != pg.Unchanged {
			continue
		}
		row[i] = pg.Value{Kind: pg.Null}
		if v := values[next]; v != nil {
			row[i] = pg.Value{Kind: pg.Text, Text: v}
		}
		next++
	}
}

// unreadable explains why the current row of a table cannot be read.
func unreadable(err error, r *relation, t *pg.Table) error {
	if pg.Code(err) == pg.CodeUndefinedColumn {
		return r.incomplete(fmt.Errorf("the server did not send an unchanged large value, and the table no "+
			"longer has its column: %w", err))
	}
	return explainRead(err, t)
}

// explainRead explains why rows of a table cannot be read.
func explainRead(err error, t *pg.Table) error {
	err = fmt.Errorf("cannot read table %s: %w", t.ID(), err)
	var server *pgconn.PgError
	switch {
	case pg.Code(err) != pg.CodePrivilege:
		return err
	case errors.As(err, &server) && strings.Contains(server.Message, "row-level security"):
		return fmt.Errorf("%w: row-level security hides rows of the table from the role, but the source receives "+
			"changes of all rows: run ALTER ROLE … BYPASSRLS", err)
	}
	return fmt.Errorf("%w: run GRANT SELECT ON %s TO the role", err, t.SQL())
}

// incomplete returns the error of a change that lacks columns of a row.
func (r *relation) incomplete(why error) error {
	return fmt.Errorf("cannot read a change of table %s: %w. To make the server send complete rows from now on, run "+
		"ALTER TABLE %s REPLICA IDENTITY FULL. To skip this change and read the table again, add %s/1, or another "+
		"word after the slash, to snapshot.again", r.id(), why,
		pg.Quote(r.schema)+"."+pg.Quote(r.name), r.id())
}
