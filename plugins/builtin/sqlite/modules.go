package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/spec/texts"
)

// usingModule matches a statement that creates a virtual table, writesTo the target or source of a statement in a
// trigger, and quotes the quotation marks around a name.
var (
	usingModule = texts.Regexp("(?is)^\\s*CREATE\\s+VIRTUAL\\s+TABLE\\s.*?\\sUSING\\s+[\"'`\\[]?(\\w+)")
	writesTo    = texts.Regexp(
		"(?is)\\b(?:INTO|UPDATE(?:\\s+OR\\s+\\w+)?|FROM)\\s+(\"[^\"]+\"|\\[[^\\]]+\\]|`[^`]+`|'[^']+'|\\w+)")
	quotes = texts.Regexp("^[\"'`\\[]|[\"'`\\]]$")
)

// VirtualTables returns the modules of the virtual tables of a database, by table name in lower case. The SQLite of the
// agent may lack these modules.
func VirtualTables(ctx context.Context, conn *sql.Conn) (map[string]string, error) {
	modules := map[string]string{}
	err := sqlsink.EachRow(ctx, conn, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND rootpage = 0",
		func(rows *sql.Rows) error {
			var name, text string
			err := rows.Scan(&name, &text)
			if m := usingModule().FindStringSubmatch(text); m != nil {
				modules[strings.ToLower(name)] = strings.ToLower(m[1])
			}
			return err
		})
	return modules, err
}

// CheckModules returns an error if the triggers of a table would use a virtual table whose module the SQLite of the
// agent lacks: every write would fail.
func CheckModules(ctx context.Context, conn *sql.Conn, table string) error {
	missing, err := VirtualTables(ctx, conn)
	if err != nil || len(missing) == 0 {
		return err
	}
	err = sqlsink.EachRow(ctx, conn, "SELECT name FROM pragma_module_list", func(rows *sql.Rows) error {
		var there string
		err := rows.Scan(&there)
		for name, module := range missing {
			if module == there {
				delete(missing, name)
			}
		}
		return err
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	written, err := writtenByTriggers(ctx, conn)
	if err != nil {
		return err
	}
	var seen []string
	for next := []string{strings.ToLower(table)}; len(next) > 0; next = next[1:] {
		if module := missing[next[0]]; module != "" {
			return fmt.Errorf("triggers of table %s write to virtual table %s, whose module %s is not part of the "+
				"SQLite in this agent: build the agent with the tag sqlite_%s, or drop the triggers that write to "+
				"%s", table, next[0], module,
				module, next[0])
		}
		if !slices.Contains(seen, next[0]) {
			seen = append(seen, next[0])
			next = append(next, written[next[0]]...)
		}
	}
	return nil
}

// writtenByTriggers returns the tables that the triggers of each table write to or read, all in lower case.
func writtenByTriggers(ctx context.Context, conn *sql.Conn) (map[string][]string, error) {
	tables := map[string][]string{}
	err := sqlsink.EachRow(ctx, conn, "SELECT lower(tbl_name), sql FROM sqlite_schema WHERE type = 'trigger'",
		func(rows *sql.Rows) error {
			var table, text string
			err := rows.Scan(&table, &text)
			for _, m := range writesTo().FindAllStringSubmatch(text, -1) {
				tables[table] = append(tables[table], strings.ToLower(quotes().ReplaceAllString(m[1], "")))
			}
			return err
		})
	return tables, err
}
