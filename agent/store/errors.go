package store

import (
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// Errors that a caller may test with errors.Is, in addition to spec.ErrNotFound, spec.ErrConflict and the errors of
// package sqlitefile.
var (
	ErrFenced           = errors.New("a later run of the pipeline has begun")
	ErrOutOfOrder       = errors.New("position is behind the one saved before")
	ErrNewer            = errors.New("store was written by a newer version")
	ErrOther            = errors.New("it is not a store")
	ErrForeign          = errConduit
	ErrMoved      error = environmentError("store file was moved or deleted")
	ErrClosed           = errors.New("store is closed")

	ErrLocked   = sqlitefile.ErrLocked
	ErrDamaged  = sqlitefile.ErrDamaged
	ErrFull     = sqlitefile.ErrFull
	ErrReadOnly = sqlitefile.ErrReadOnly
	ErrIO       = sqlitefile.ErrIO
)

// environmentError is an error with a cause outside of the agent, which only a person can fix there.
type environmentError string

// Error implements error.
func (e environmentError) Error() string { return string(e) }

// Environment marks an error of the machine, for the exit code of the command line.
func (environmentError) Environment() bool { return true }

// CheckpointError names the checkpoint that made SaveCheckpoints fail.
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
