package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The start of every store: SQLite's magic, and at its place our application id.
const (
	headerMagic   = "SQLite format 3\x00"
	headerSize    = 100
	headerAppID   = 68
	applicationID = 0x636f6e64
)

// createFile creates the store at path unless it exists. The file is made under
// another name and renamed when it is complete and durable, so that a file at path is
// a whole store at any moment, and an empty one is known to be damaged.
func createFile(ctx context.Context, path string, now func() time.Time) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("%w: its log %q is there but the file itself is not; restore the file, or move the log away to begin anew", ErrDamaged, path+"-wal")
	}
	draft := path + ".new"
	for _, leftover := range []string{draft, draft + "-wal", draft + "-shm"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, os.ErrNotExist) {
			return withReadOnly(err)
		}
	}
	if err := writeDraft(ctx, draft, now); err != nil {
		return classify(withReadOnly(err))
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
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
	if err := errors.Join(migrate(ctx, writer, now), writer.Close()); err != nil {
		return err
	}
	if _, err := os.Lstat(draft + "-wal"); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: log of the new file was not written back", ErrIO)
	}
	return nil
}

// syncDir makes the names in dir durable, and dir's own name.
func syncDir(dir string) error {
	for _, name := range []string{dir, filepath.Dir(dir)} {
		d, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return fmt.Errorf("cannot sync %q: %w", name, err)
		}
	}
	return nil
}

// checkHeader refuses what is not a store, before SQLite gets to touch it.
func checkHeader(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := foreignDirectory(path); err != nil {
			return err
		}
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file; give db.sqlite.path another name", ErrDamaged)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	header := make([]byte, headerSize)
	if n, err := io.ReadFull(f, header); err != nil || string(header[:len(headerMagic)]) != headerMagic {
		return fmt.Errorf("%w: not a database (%d bytes of header); restore it from a backup, or move it away to begin anew: every source then starts from its beginning", ErrDamaged, n)
	}
	if id := binary.BigEndian.Uint32(header[headerAppID:]); id != applicationID {
		if id == 0 {
			if err := foreignDatabase(path); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: a database of another application (id %#x); give db.sqlite.path another name", ErrDamaged, id)
	}
	return nil
}
