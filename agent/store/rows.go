package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// RowError names a row that cannot be read although its table can. It wraps ErrDamaged.
type RowError struct {
	Table, ID string
	Err       error
}

// Error implements error.
func (e *RowError) Error() string {
	return fmt.Sprintf("%v: row %q of table %s cannot be read: %v; restore a backup with conduit store restore FILE, "+
		"or drop the row with conduit store repair", ErrDamaged, e.ID, e.Table, e.Err)
}

// Unwrap returns ErrDamaged and the reason.
func (e *RowError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// keys maps tables to the columns of their row ids, where that is not id.
var keys = map[string]string{"revisions": "pipeline_id"}

// Readable returns nil if all rows of the store at path can be read. Otherwise it returns a *RowError for the first
// unreadable row, or another error. It changes nothing.
func Readable(ctx context.Context, path string) error {
	reader := openReader(path, nil)
	defer reader.Close()
	err := newDB(path).load(ctx, &pools{reader: reader})
	if err == nil {
		_, err = states.read(ctx, reader)
	}
	if err == nil {
		_, err = queryAll(ctx, reader, scanRevision, `SELECT `+revisionColumns+` FROM revisions WHERE spec IS NOT NULL`)
	}
	return wrap(sqlitefile.Explain(path, err), "cannot read store %q", path)
}

// RemoveUnreadable deletes the unreadable rows of the complete store at path.
func RemoveUnreadable(ctx context.Context, path string) (removed []*RowError, err error) {
	for {
		err := Readable(ctx, path)
		var row *RowError
		if !errors.As(err, &row) {
			return removed, err
		}
		column := keys[row.Table]
		if column == "" {
			column = "id"
		}
		writer := openWriter(path)
		result, err := writer.ExecContext(ctx, `DELETE FROM `+row.Table+` WHERE `+column+` = ?`, row.ID)
		if err = errors.Join(err, writer.Close()); err != nil {
			return removed, err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return removed, errors.Join(row, err)
		}
		removed = append(removed, row)
	}
}
