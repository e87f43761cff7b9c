package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// applicationID identifies a store in the header of the file.
const applicationID = 0x636f6e64

// File returns the store at path as a sqlitefile.File.
func File(path string) sqlitefile.File { return sqlitefile.File{Path: path, Generations: true} }

// createFile creates the store at path unless it exists. It creates the file under another name, syncs and renames it.
// So a file at path is always a complete store, and an empty one is damaged.
func createFile(ctx context.Context, path string, now func() time.Time) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("%w: its log %q exists but the file itself is missing; restore the file, or move the log "+
			"away to start over", ErrDamaged, path+"-wal")
	}
	draft := path + ".new"
	for _, leftover := range []string{draft, draft + "-wal", draft + "-shm"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, os.ErrNotExist) {
			return sqlitefile.Explain(path, err)
		}
	}
	if err := writeDraft(ctx, draft, now); err != nil {
		return sqlitefile.Explain(path, err)
	}
	return sqlitefile.Place(draft, path)
}

func writeDraft(ctx context.Context, draft string, now func() time.Time) error {
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	writer := openWriter(draft)
	return errors.Join(migrate(ctx, writer, now), writer.Close())
}

// Identify returns an error unless the file at path is a store, according to its header. It does not open the file with
// SQLite.
func Identify(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := rejectConduitDirectory(path); err != nil {
			return err
		}
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a regular file; set db.sqlite.path to another file", ErrOther)
	}
	id, err := sqlitefile.ApplicationID(path)
	if err != nil {
		return err
	}
	if id != applicationID {
		if id == 0 {
			if err := rejectConduitDatabase(path); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: it is a database of another application (id %#x); set db.sqlite.path to another file",
			ErrOther,
			id)
	}
	return nil
}
