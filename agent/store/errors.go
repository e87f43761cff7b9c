package store

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// What a caller may branch on, with errors.Is, in addition to spec.ErrNotFound and spec.ErrConflict.
var (
	ErrFenced           = errors.New("a later run of the pipeline has begun")
	ErrOutOfOrder       = errors.New("position is behind the one saved before")
	ErrLocked     error = environmentError("store is in use")
	ErrNewer            = errors.New("store was written by a newer version")
	ErrDamaged          = errors.New("store is damaged")
	ErrForeign          = errors.New("it is the state of a Conduit")
	ErrFull       error = environmentError("no space left for the store")
	ErrReadOnly   error = environmentError("store is read-only")
	ErrIO         error = environmentError("store cannot be read or written")
	ErrMoved      error = environmentError("store is not in its place any more")
	ErrClosed           = errors.New("store is closed")
)

// environmentError is a cause outside of the agent that only a person can mend there.
type environmentError string

// Error implements error.
func (e environmentError) Error() string { return string(e) }

// Environment marks an error of the machine, for the exit code of the command line.
func (environmentError) Environment() bool { return true }

// CheckpointError says which checkpoint made SaveCheckpoints fail.
type CheckpointError struct {
	ConnectorID string
	PipelineID  string
	Err         error // ErrFenced, ErrOutOfOrder, …
}

// Error implements error.
func (e *CheckpointError) Error() string {
	return fmt.Sprintf("cannot save the checkpoint of connector %q: %v", e.ConnectorID, e.Err)
}

// Unwrap returns the reason.
func (e *CheckpointError) Unwrap() error { return e.Err }

// classify adds the error of ours that an error of SQLite amounts to.
func classify(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) || isOurs(err) {
		return err
	}
	if kind := kindOf(e); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

func isOurs(err error) bool {
	for _, kind := range []error{ErrFull, ErrReadOnly, ErrIO, ErrDamaged} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func kindOf(e sqlite3.Error) error {
	switch {
	case e.Code == sqlite3.ErrFull, e.SystemErrno == syscall.ENOSPC, e.SystemErrno == syscall.EDQUOT:
		return ErrFull
	case e.Code == sqlite3.ErrReadonly, e.SystemErrno == syscall.EROFS:
		return ErrReadOnly
	case e.Code == sqlite3.ErrIoErr, e.Code == sqlite3.ErrCantOpen:
		return ErrIO
	case e.Code == sqlite3.ErrCorrupt, e.Code == sqlite3.ErrNotADB:
		return ErrDamaged
	}
	return nil
}

// untrustworthy reports whether, after err, what the connections believe about the
// file may be wrong. After a failed fsync the next one can succeed although the
// pages of the first were never written.
func untrustworthy(err error) bool {
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
