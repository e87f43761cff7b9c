package sqlitefile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// Errors that a caller may test with errors.Is.
var (
	ErrLocked     error = environmentError("store is in use")
	ErrDamaged          = errors.New("store is damaged")
	ErrIncomplete       = errors.New("store is not complete")
	ErrFull       error = environmentError("no space left for the store")
	ErrReadOnly   error = environmentError("store is read-only")
	ErrIO         error = environmentError("store cannot be read or written")
	ErrNetwork    error = environmentError("store is on a network file system")
)

// advice maps faults to their remedies. The texts of the other faults contain their remedy.
var advice = map[error]string{
	ErrFull: "free some space on its file system; saving then resumes automatically",
	ErrReadOnly: "make the directory writable, or remount its file system (dmesg says why the kernel made it " +
		"read-only); saving then resumes automatically",
	ErrIO: "check the disk (dmesg says more); saving resumes automatically when the disk can be written",
	ErrDamaged: "show the damage with conduit store check; restore a backup with conduit store restore FILE, or keep " +
		"the readable rows with conduit store repair",
}

// environmentError is an error with a cause outside of the agent, which only a person can fix there.
type environmentError string

// Error implements error.
func (e environmentError) Error() string { return string(e) }

// Environment marks an error of the machine, for the exit code of the command line.
func (environmentError) Environment() bool { return true }

// Explain adds to an error of SQLite or of the system about the file at path the matching error of this package, and a
// remedy.
func Explain(path string, err error) error {
	if err == nil || Kind(err) != nil {
		return err
	}
	kind := kindOf(err)
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %s: %w; %s", kind, path, err, advice[kind])
}

// Kind returns the error of this package that err wraps, or nil if there is none.
func Kind(err error) error {
	for _, kind := range []error{ErrLocked, ErrDamaged, ErrIncomplete, ErrFull, ErrReadOnly, ErrIO, ErrNetwork} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

func kindOf(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return kindOfSystem(err)
	}
	switch {
	case e.Code == sqlite3.ErrFull, e.SystemErrno == syscall.ENOSPC, e.SystemErrno == syscall.EDQUOT:
		return ErrFull
	case e.Code == sqlite3.ErrReadonly, e.SystemErrno == syscall.EROFS:
		return ErrReadOnly
	case e.Code == sqlite3.ErrIoErr, e.Code == sqlite3.ErrCantOpen:
		return ErrIO
	case e.Code == sqlite3.ErrCorrupt, e.Code == sqlite3.ErrNotADB, e.Code == sqlite3.ErrError &&
		e.Error() == unknownFormat:
		return ErrDamaged
	}
	return nil
}

// unknownFormat is the message of SQLite for an unknown format number in the header. SQLite has no separate error code
// for it.
const unknownFormat = "unsupported file format"

func kindOfSystem(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return ErrReadOnly
	case errors.Is(err, syscall.EIO):
		return ErrIO
	}
	return nil
}

// Untrustworthy reports whether, after err, the connections may have a wrong view of the file. After a failed fsync the
// next one can succeed although the pages of the first were never written.
func Untrustworthy(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sqlite3.ErrIoErr, sqlite3.ErrCorrupt, sqlite3.ErrNotADB, sqlite3.ErrCantOpen:
		return true
	}
	return false
}
