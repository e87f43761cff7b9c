// Package sqlitefile handles the files of the agent's SQLite databases: the store and the dead-letter store. It locks
// and checks them, and classifies their faults with a remedy for each. It copies them consistently while they are in
// use, recognizes inconsistent copies, and salvages rows of damaged files.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/mattn/go-sqlite3" // the driver
)

// open returns connections to the SQLite file at path, with parameters of the driver.
func open(path, parameters string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_busy_timeout=5000&"+parameters)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// File is a SQLite file of the agent.
type File struct {
	Path string
	// Generations reports whether the file has generations, as the store does: see State.
	Generations bool
	// Former holds, by their names, the names of tables in files of earlier versions.
	Former map[string]string
}

// QuickCheck returns ErrDamaged if the structure of the file is damaged. It reads the whole file.
func QuickCheck(ctx context.Context, db *sql.DB) error {
	found, err := findings(ctx, db, `PRAGMA quick_check(1)`)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s; %s", ErrDamaged, strings.ReplaceAll(found[0], "\n", ", "), advice[ErrDamaged])
	}
	return err
}

// Check returns the problems of the file and its log, if there is one. It changes nothing, and an agent may have the
// file open.
func (f File) Check(ctx context.Context) (found []string, err error) {
	path := f.Path
	state, err := StateOf(path)
	if errors.Is(err, ErrDamaged) {
		return []string{err.Error()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot check %q: %w", path, err)
	}
	if err := state.Err(path); f.Generations && err != nil && !inUse(path) {
		found = append(found, err.Error())
	}
	db, err := open(path, "mode=ro&_query_only=1")
	if err != nil {
		return nil, fmt.Errorf("cannot check %q: %w", path, err)
	}
	defer db.Close()
	for _, pragma := range []string{`PRAGMA integrity_check(100)`, `PRAGMA foreign_key_check`} {
		more, err := findings(ctx, db, pragma)
		if errors.Is(kindOf(err), ErrDamaged) {
			more, err = append(more, err.Error()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot check %q: %w", path, err)
		}
		found = append(found, more...)
	}
	return found, nil
}

// inUse reports whether an agent has the file open, in which case its log may be emptied at any time.
func inUse(path string) bool {
	lock, err := LockFile(path)
	if err == nil {
		_ = lock.Release()
	}
	return errors.Is(err, ErrLocked)
}

// findings returns the rows of a check, except for the row that reports no problem.
func findings(ctx context.Context, db *sql.DB, pragma string) (found []string, err error) {
	rows, err := db.QueryContext(ctx, pragma)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if text := strings.TrimSpace(fmt.Sprintln(values...)); text != "ok" {
			found = append(found, text)
		}
	}
	return found, rows.Err()
}

// Copy writes a consistent copy of the file to a new file. The copy is durable, and a copy of a file with generations
// is marked as a backup. An agent may have the file open.
func (f File) Copy(ctx context.Context, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("cannot write a backup to %q: the file already exists", to)
	}
	draft := to + ".new"
	if err := removeAll(draft); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cannot write a backup to %q: %w", to, Explain(to, err)), removeAll(draft))
		}
	}()
	// Created here, because SQLite would create a file that others may read.
	empty, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := empty.Close(); err != nil {
		return err
	}
	source, err := open(f.Path, "mode=ro")
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := source.ExecContext(ctx, `VACUUM INTO ?`, draft); err != nil {
		return err
	}
	target, err := open(draft, "mode=rw&_synchronous=FULL&_journal_mode=WAL") // the journal mode that an agent uses
	if err != nil {
		return err
	}
	if err := errors.Join(f.mark(ctx, target), target.Close()); err != nil {
		return err
	}
	return Place(draft, to)
}

// mark marks a file with generations as a backup. It must be called for every file, because it also opens the file.
func (f File) mark(ctx context.Context, db *sql.DB) error {
	version, err := userVersion(ctx, db)
	if err == nil && f.Generations && version >= 0 {
		err = setUserVersion(ctx, db, -max(version, 1))
	}
	return err
}

// Place makes the closed file at draft durable and renames it to path. It refuses a file whose log SQLite could not
// write back, because SQLite does not report that.
func Place(draft, path string) error {
	if _, err := os.Lstat(draft + "-wal"); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the log of the new file was not written back; check the disk, and its free space", ErrIO)
	}
	if err := syncFile(draft); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	_ = os.Remove(draft + "-shm") // SQLite may have failed to remove it when it closed the draft
	return SyncDir(filepath.Dir(path))
}

// Replace puts the file at draft in the place of f. The draft gets the owner of f. f is kept, with its log, under its
// name with ending appended. A file exists under the name of f at all times.
func (f File) Replace(draft, ending string) error {
	inherit(draft, f.Path)
	kept := f.Path + ending
	if err := os.Link(f.Path, kept); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot keep %q: %w", f.Path, err)
	}
	if err := f.MoveLog(kept); err != nil {
		return err
	}
	for _, rest := range []string{f.Path + "-shm", draft + "-shm", draft + "-wal"} { // the log of a draft was written back
		if err := os.Remove(rest); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return Place(draft, f.Path)
}

// MoveLog moves the log of f, unless it is empty, next to the file at to.
func (f File) MoveLog(to string) error {
	if info, err := os.Stat(f.Path + "-wal"); err == nil && info.Size() == 0 {
		return os.Remove(f.Path + "-wal")
	}
	if err := os.Rename(f.Path+"-wal", to+"-wal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot keep the log of %q: %w", f.Path, err)
	}
	return SyncDir(filepath.Dir(f.Path))
}

// Import copies a backup to a file at draft, replacing an existing one, and marks it as a replacement.
func (f File) Import(ctx context.Context, draft string) error {
	if err := removeAll(draft); err != nil {
		return err
	}
	from, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	target, err := open(draft, "mode=rw&_synchronous=FULL&_journal_mode=WAL")
	if err != nil {
		return err
	}
	return errors.Join(f.mark(ctx, target), target.Close())
}

func removeAll(path string) error {
	for _, part := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + part); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
