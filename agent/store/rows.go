package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// RowError says which row cannot be read although its table can. It is ErrDamaged.
type RowError struct {
	Table, ID string
	Err       error
}

// Error implements error.
func (e *RowError) Error() string {
	return fmt.Sprintf("%v: row %q of table %s cannot be read: %v; conduit store restore FILE puts a backup in its place, conduit store repair goes on without the row", ErrDamaged, e.ID, e.Table, e.Err)
}

// Unwrap returns what it is, and the reason.
func (e *RowError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// keys are the columns of the ids of rows, in tables where it is not id.
var keys = map[string]string{"revisions": "pipeline_id"}

// Readable returns nil when all rows of the store at path can be read, and otherwise an error that
// is a *RowError for the first that cannot. It changes nothing.
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

// RemoveUnreadable removes the rows of the complete store at path that cannot be read.
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
