package mysql

import (
	"context"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// warnOfStatement warns of a statement that changes rows of the source's tables without logging them.
func (st *stream) warnOfStatement(q *binlog.Query) {
	for _, c := range Changes(q.SQL) {
		for _, t := range c.Tables {
			if t.Schema == "" {
				t.Schema = q.Schema
			}
			if t.Name != "" && st.settings.wants(t.Schema, t.Name) || t.Name == "" && st.settings.wantsAny(t.Schema) {
				st.log.Warn("a table "+c.What+"; its rows changed without records of the changes",
					"table", strings.TrimSuffix(t.Schema+"."+t.Name, "."),
					"statement", q.SQL, "gtid", st.tx.gtid)
			}
		}
	}
}

// warnOfCascades warns once about each foreign key that changes rows of the source's tables: the engine makes these
// changes, and the log does not have them.
func (s *Source) warnOfCascades(ctx context.Context) error {
	if s.server.logsCascades() {
		return nil
	}
	tables, err := resolve(ctx, s.db, s.settings.patterns)
	if err != nil {
		return err
	}
	for _, t := range tables {
		keys, err := t.Cascades(ctx, s.db)
		if isNumber(err, noSuchTable) {
			continue // dropped meanwhile
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if text := t.ID() + "." + k.Name; !slices.Contains(s.cascades, text) {
				s.cascades = append(s.cascades, text)
				s.log.Warn("the binary log does not have changes made by a foreign key: rows that a cascade deletes "+
					"or updates remain unchanged at the destination",
					"table", t.ID(), "constraint", k.Name, "parent", k.Parent.Name, "onDelete", k.OnDelete, "onUpdate",
					k.OnUpdate)
			}
		}
	}
	return nil
}
