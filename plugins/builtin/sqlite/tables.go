package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// maxColumns is the maximum number of columns of a captured table: the table of changes has two for each, and SQLite
// allows it 2000.
const maxColumns = (2000 - fixed) / 2

// list describes the tables in the schema of a database.
type list struct {
	tables  []string          // ordinary user tables
	refused map[string]string // why each of the other tables cannot be captured
	unclear []string          // refused tables that may nevertheless be ordinary ones
}

// list returns the ordinary user tables: tables that support triggers, and to which programs can still write when there
// are triggers. It excludes the tables that store the content of virtual tables, and the tables of this or another
// source.
func (c *Capture) list(ctx context.Context, conn *sql.Conn) (l list, err error) {
	virtual, err := VirtualTables(ctx, conn)
	if err != nil {
		return l, err
	}
	types := map[string]string{}
	err = sqlsink.EachRow(ctx, conn, "SELECT name, type FROM pragma_table_list WHERE schema = 'main'",
		func(rows *sql.Rows) error {
			var name, typ string
			err := rows.Scan(&name, &typ)
			types[name] = typ
			return err
		})
	if err != nil {
		return l, err
	}
	captures := capturesIn(types)
	l.refused = map[string]string{}
	for name, typ := range types {
		parent, owned := ownerOf(name, virtual)
		switch {
		case strings.HasPrefix(name, "sqlite_"):
		case typ == "virtual":
			l.refused[name] = "a virtual table has no changes: capture the table with its content instead"
		case typ == "view":
			l.refused[name] = "a view has no changes: capture its tables instead"
		case typ == "shadow" || owned && parent.known:
			l.refused[name] = "it stores the content of a virtual table, to which programs could no longer write"
		case owned:
			l.refused[name] = fmt.Sprintf("it may store the content of virtual table %s of module %s, to which "+
				"programs could no longer write: rename the table to capture it", parent.table,
				parent.module)
			l.unclear = append(l.unclear, name)
		case isNote(name, c.Table) || slices.ContainsFunc(captures, func(table string) bool {
			return isNote(name, table)
		}):
			l.refused[name] = "a source stores changes in it"
		case typ == "table":
			l.tables = append(l.tables, name)
		}
	}
	slices.Sort(l.tables)
	return l, nil
}

// choose returns the tables that match the items of the setting tables.
func (l *list) choose(items []string) ([]string, error) {
	if slices.Contains(items, "*") {
		return l.tables, nil
	}
	for _, item := range items {
		if why := l.refused[item]; why != "" {
			return nil, fmt.Errorf("cannot capture table %s: %s", item, why)
		}
		if !slices.Contains(l.tables, item) {
			return nil, fmt.Errorf("table %s does not exist", item)
		}
	}
	return items, nil
}

// shadows maps known modules to the name suffixes of the tables that store the content of their virtual tables. The
// SQLite of the agent may lack these modules, and then does not recognize such a table.
var shadows = map[string][]string{
	"fts3":      {"content", "docsize", "segdir", "segments", "stat"},
	"fts4":      {"content", "docsize", "segdir", "segments", "stat"},
	"fts5":      {"config", "content", "data", "docsize", "idx"},
	"rtree":     {"node", "parent", "rowid"},
	"rtree_i32": {"node", "parent", "rowid"},
	"geopoly":   {"node", "parent", "rowid"},
}

// owner is a virtual table that stores its content in another table.
type owner struct {
	table, module string
	known         bool // the table names of the module are known; otherwise a common prefix is sufficient
}

// ownerOf returns the virtual table that stores its content in the named table, if there is one.
func ownerOf(name string, virtual map[string]string) (parent owner, ok bool) {
	name = strings.ToLower(name)
	for table, module := range virtual {
		end, begins := strings.CutPrefix(name, table+"_")
		ends, known := shadows[module]
		if begins && (!known || slices.Contains(ends, end)) {
			return owner{table, module, known}, true
		}
	}
	return parent, false
}

// noteTables are the name suffixes of the tables of a Capture.
var noteTables = []string{"", "_tables", "_runs", "_source"}

// isNote reports whether a table belongs to the Capture with this table of changes.
func isNote(name, changes string) bool {
	end, ok := strings.CutPrefix(strings.ToLower(name), strings.ToLower(changes))
	return ok && slices.Contains(noteTables, end)
}

// capturesIn returns the tables of changes of all sources in a database. A source must not capture the records of
// another source: the two would record each other's changes without end.
func capturesIn(types map[string]string) (changes []string) {
	for name := range types {
		if !slices.ContainsFunc(noteTables, func(end string) bool { return types[name+end] != "table" }) {
			changes = append(changes, name)
		}
	}
	return changes
}
