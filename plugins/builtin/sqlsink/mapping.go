package sqlsink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/expr"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// mapping maps the fields of a record to columns.
type mapping struct {
	rename   map[string]string // column by field
	omit     []string
	key      []string   // key columns, sorted; nil: the fields of the record's key
	computed []computed // in the order of the columns
}

// computed is a column with a constant or the value of an expression.
type computed struct {
	column     string
	constant   string
	expression *expr.Expression // nil: the constant
}

// newMapping returns the mapping of the settings, or nil if every field has its own name as column.
func newMapping(ctx context.Context, s *Settings) (*mapping, error) {
	if len(s.Key)+len(s.Rename)+len(s.Omit)+len(s.Constant)+len(s.Expression) == 0 {
		return nil, nil
	}
	m := &mapping{rename: s.Rename, omit: s.Omit, key: slices.Sorted(slices.Values(s.Key))}
	set := map[string]string{} // setting by column
	take := func(setting, column string) error {
		if other := set[column]; other != "" {
			return sdk.SettingError{Setting: setting, Message: fmt.Sprintf("sets column %q, and so does %s", column,
				other)}
		}
		set[column] = setting
		return nil
	}
	for _, field := range slices.Sorted(maps.Keys(s.Rename)) {
		setting := "columns.rename." + field
		if slices.Contains(s.Omit, field) {
			return nil, sdk.SettingError{Setting: setting, Message: "names a field of columns.omit"}
		}
		if err := take(setting, s.Rename[field]); err != nil {
			return nil, err
		}
	}
	for _, column := range slices.Sorted(maps.Keys(s.Constant)) {
		if err := take("columns.constant."+column, column); err != nil {
			return nil, err
		}
		m.computed = append(m.computed, computed{column: column, constant: s.Constant[column]})
	}
	for _, column := range slices.Sorted(maps.Keys(s.Expression)) {
		setting := "columns.expression." + column
		if err := take(setting, column); err != nil {
			return nil, err
		}
		x, err := expr.Compile(ctx, setting, s.Expression[column])
		if err != nil {
			return nil, sdk.SettingError{Setting: setting, Message: err.Error()}
		}
		if slices.Contains(s.Key, column) && x.ReadsAfter() && s.Mode != modeDelete && s.Delete != deleteIgnore {
			return nil, sdk.SettingError{Setting: setting, Message: "cannot read after, because it is a column of the " +
				"key and a delete has no after: use key"}
		}
		m.computed = append(m.computed, computed{column: column, expression: x})
	}
	slices.SortFunc(m.computed, func(a, b computed) int { return strings.Compare(a.column, b.column) })
	return m, nil
}

// column returns the column of a field. ok is false if the field is omitted.
func (m *mapping) column(field string) (column string, ok bool) {
	if slices.Contains(m.omit, field) {
		return "", false
	}
	if column, ok := m.rename[field]; ok {
		return column, true
	}
	return field, true
}

// values returns the values of a row by column, and sets its key to the key columns.
func (m *mapping) values(
	ctx context.Context, r *record.Record, p parts, fields map[string]any, out *row,
) (map[string]any, error) {
	values := make(map[string]any, len(fields)+len(m.computed))
	for field, v := range fields {
		column, ok := m.column(field)
		if !ok {
			continue
		}
		if _, twice := values[column]; twice {
			return nil, Refuse("cannot write to table %s: two fields of the record have the column %q: change "+
				"columns.rename or columns.omit", out.table, column)
		}
		values[column] = v
	}
	if err := m.setKey(out); err != nil {
		return nil, err
	}
	if err := m.compute(ctx, r, p, values, out); err != nil {
		return nil, err
	}
	if out.kind == Insert {
		return values, nil
	}
	for _, k := range out.key {
		if values[k] == nil {
			return nil, Refuse("cannot write to table %s: the record has no value for column %q of the key", out.table,
				k)
		}
	}
	return values, nil
}

// setKey replaces the fields of the key by the key columns.
func (m *mapping) setKey(out *row) error {
	if m.key != nil {
		out.key = m.key
		return nil
	}
	for i, field := range out.key {
		column, ok := m.column(field)
		if !ok && out.kind != Insert {
			return Refuse("cannot write to table %s: columns.omit has the field %q of the record's key: set "+
				"columns.key to the columns of the key", out.table, field)
		}
		out.key[i] = column
	}
	slices.Sort(out.key)
	return nil
}

// compute sets the columns with constants and expressions. The row of a Remove gets the columns of the key only. An
// update or delete that lacks a field which an expression reads does not write the column, so that it keeps its value.
func (m *mapping) compute(ctx context.Context, r *record.Record, p parts, values map[string]any, out *row) error {
	isKey := func(column string) bool { return slices.Contains(out.key, column) }
	if out.kind == Remove || out.kind == Mark {
		maps.DeleteFunc(values, func(column string, _ any) bool { return !isKey(column) })
	}
	seen := shown(r, p)
	for _, c := range m.computed {
		switch {
		case out.kind == Remove && !isKey(c.column):
		case c.expression == nil:
			values[c.column] = c.constant
		case c.expression.Lacks(&seen) &&
			(r.Operation == record.OperationUpdate || r.Operation == record.OperationDelete):
			delete(values, c.column)
		default:
			v, err := c.expression.Value(ctx, &seen)
			if err != nil {
				return Refuse("cannot write to table %s: %w", out.table, err)
			}
			values[c.column] = v
		}
	}
	return nil
}

// shown returns r with objects in place of raw JSON, for expressions.
func shown(r *record.Record, p parts) record.Record {
	seen := *r
	if p.key != nil {
		seen.Key = record.Structured(p.key)
	}
	if p.after != nil {
		seen.After = record.Structured(p.after)
	}
	if p.before != nil {
		seen.Before = record.Structured(p.before)
	}
	return seen
}
