package spec

import "errors"

// Errors of several packages that a caller can distinguish with errors.Is.
var (
	// ErrNotFound says that the requested object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a declaration has another version than the one that a change is based on.
	ErrConflict = errors.New("changed by another client in the meantime")
	// ErrBusy reports that an operation in progress prevents the request, and that a retry may succeed.
	ErrBusy = errors.New("another operation is in progress")
	// ErrNeedsRestart says that a run cannot be amended to a version, which needs a new run.
	ErrNeedsRestart = errors.New("the change requires a restart of the pipeline")
)
