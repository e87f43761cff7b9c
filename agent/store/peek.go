package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/spec"
)

// Peek returns the desired state in the store at path and the states of the pipeline files. It changes nothing and
// needs no lock, so an agent may have the store open meanwhile. A store that does not exist declares nothing.
func Peek(ctx context.Context, path string) (declared []spec.Declaration, files []spec.FileState, err error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		declared, files, err = peek(ctx, abs)
	}
	return declared, files, wrap(sqlitefile.Explain(abs, err), "cannot read store %q", path)
}

// peekedColumns omits the columns that stores of earlier versions do not have.
var peekedColumns = strings.Replace(declarationColumns, "owner_places", "'' AS owner_places", 1)

func peek(ctx context.Context, path string) ([]spec.Declaration, []spec.FileState, error) {
	if err := Identify(path); err != nil {
		return nil, nil, err
	}
	reader := openReader(path, nil)
	defer reader.Close()
	if err := checkKnown(ctx, reader); err != nil {
		return nil, nil, err
	}
	tx, err := reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // for a consistent view of both tables
	if err != nil {
		return nil, nil, fmt.Errorf("cannot begin a read transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	db := newDB(path)
	if err := errors.Join(loadDeclarations(ctx, tx, peekedColumns, &db.declarations),
		db.files.load(ctx, tx)); err != nil {
		return nil, nil, err
	}
	return db.declarations.All(), db.files.All(), nil
}

// Checkpoints returns the checkpoints in the store at path, by connector id, as Peek does.
func Checkpoints(ctx context.Context, path string) (all []spec.Checkpoint, err error) {
	if err := Verify(ctx, path); err != nil {
		return nil, err
	}
	reader := openReader(path, nil)
	defer reader.Close()
	all, err = readCheckpoints(ctx, reader)
	return all, wrap(sqlitefile.Explain(path, err), "cannot read store %q", path)
}

// Verify returns nil if the file at path is a store that this version can open.
func Verify(ctx context.Context, path string) error {
	if err := Identify(path); err != nil {
		return err
	}
	reader := openReader(path, nil)
	defer reader.Close()
	return sqlitefile.Explain(path, checkKnown(ctx, reader))
}

// Create creates a complete, closed, empty store at path, replacing an existing file.
func Create(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeDraft(ctx, path, time.Now)
}

// Mend holds statements that, after a repair, delete rows without their parent rows.
var Mend = []string{
	`DELETE FROM schema_versions WHERE schema_id NOT IN (SELECT id FROM schemas)`,
	`DELETE FROM answers`,
}
