package sqlsink

import (
	"context"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Values of the settings mode, delete and schema.evolution.
const (
	modeAppend      = "append"
	modeDelete      = "delete"
	deleteApply     = "apply"
	deleteIgnore    = "ignore"
	deleteSoft      = "soft"
	evolutionCreate = "create"
)

// checkModes refuses settings that exclude each other.
func (s *Settings) checkModes() error {
	switch {
	case s.Delete == deleteSoft && s.Mode != "upsert":
		return sdk.SettingError{Setting: "delete", Message: "needs mode upsert to be soft"}
	case s.Delete == deleteIgnore && s.Mode == modeDelete:
		return sdk.SettingError{Setting: "delete", Message: "needs mode upsert or append to be ignore"}
	case s.Delete == deleteSoft && s.DeleteColumn == "":
		return sdk.SettingError{Setting: "delete.column", Message: "is required with delete: soft"}
	case len(s.Key) > 0 && s.Mode == modeAppend:
		return sdk.SettingError{Setting: "columns.key", Message: "needs mode upsert or delete: append uses no key"}
	}
	return nil
}

// row is the row that a record requires.
type row struct {
	table  string         // as in the setting
	kind   Kind           // Update stands for Upsert, too
	key    []string       // names of the key columns, sorted; nil for Insert
	values map[string]any // by column; the key columns for Remove
}

// row returns the row that r requires, without a table if r has no effect.
func (w *Writer[C]) row(ctx context.Context, r *record.Record) (out row, err error) {
	s, deletes := &w.settings, r.Operation == record.OperationDelete
	if deletes && s.Delete == deleteIgnore {
		return row{}, nil
	}
	if out.table, err = w.tableOf(r); err != nil {
		return row{}, err
	}
	out.kind = kindOf(s, r)
	p, err := partsOf(r)
	if err != nil && out.kind != Remove && out.kind != Mark {
		return row{}, Refuse("cannot write to table %s: the payload is not an object: %w%s", out.table, err,
			csv.Cause(r.Metadata))
	}
	if len(p.key) > 0 {
		out.key = slices.Sorted(maps.Keys(p.key))
	}
	if out.values, err = w.values(ctx, r, p, &out); err != nil {
		return row{}, err
	}
	switch {
	case out.kind == Insert:
		out.key = nil
	case len(out.key) > 0:
	case out.kind == Remove || out.kind == Mark:
		return row{}, Refuse("cannot delete from table %s: the record has no key; set columns.key to the columns of "+
			"the key", out.table)
	case r.Operation == record.OperationUpdate:
		return row{}, Refuse("cannot update table %s: the record has no key; set columns.key to the columns of the "+
			"key", out.table)
	default:
		out.kind = Insert
	}
	if s.Delete == deleteSoft && len(out.values) > 0 {
		if w.mapping == nil && len(p.key) == 0 {
			out.values = maps.Clone(out.values) // the payload of the record
		}
		out.values[s.DeleteColumn] = deletes
	}
	return out, nil
}

// kindOf returns the kind of the change that r requires if it has a key.
func kindOf(s *Settings, r *record.Record) Kind {
	deletes := r.Operation == record.OperationDelete
	switch {
	case s.Mode == modeAppend:
		return Insert
	case s.Mode == modeDelete, deletes && s.Delete == deleteApply:
		return Remove
	case deletes:
		return Mark
	case r.Operation == record.OperationUpdate:
		return Update
	}
	return Upsert
}

// parts are the objects in a record. A part that is no object is nil.
type parts struct{ key, before, after map[string]any }

// partsOf returns the parts of r, and an error if the payload is no object.
func partsOf(r *record.Record) (p parts, err error) {
	p.key = keyObject(r.Key)
	if p.after, err = object(r.After); err == nil && r.Operation == record.OperationDelete {
		p.before, err = object(r.Before)
	}
	return p, err
}

// values returns the values of a row by column, and sets its key to the key columns.
func (w *Writer[C]) values(ctx context.Context, r *record.Record, p parts, out *row) (map[string]any, error) {
	removes := out.kind == Remove || out.kind == Mark
	var payload map[string]any
	switch {
	case removes && len(w.settings.Key) == 0: // other columns must not count as the key
	case p.after == nil:
		payload = p.before
	default:
		payload = p.after
	}
	fields := withKey(payload, p.key)
	if w.mapping == nil {
		return fields, nil
	}
	return w.mapping.values(ctx, r, p, fields, out)
}
