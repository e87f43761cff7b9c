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
	// ErrInvalid reports that the request itself is wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrPrecondition reports that the present state does not allow the request.
	ErrPrecondition = errors.New("not possible in the present state")
	// ErrExists reports that the id is in use.
	ErrExists = errors.New("exists already")
	// ErrExhausted reports that a limit is reached.
	ErrExhausted = errors.New("a limit is reached")
	// ErrUnavailable reports that something that the request needs cannot be reached.
	ErrUnavailable = errors.New("unavailable")
)

// Codes of errors, in addition to those of problems. They are stable: programs may branch on them.
const (
	CodePipelineExists    = "pipeline.already_exists"
	CodePipelineRunning   = "pipeline.running"
	CodePipelineDeleting  = "pipeline.being_deleted"
	CodePipelineInstances = "pipeline.several_instances"
	CodeCluster           = "cluster.unreachable"
	CodeTooMany           = "request.too_many"
)

// Error is an error that tells a client what to do.
type Error struct {
	Kind       error  // one of the errors of this package, which errors.Is finds
	Code       string // a Code constant
	Message    string
	Suggestion string // remedy; "" for none
	Field      string // of the request, that is to blame; "" for none
	Pipeline   string // id of the pipeline that is to blame; "" for none
}

// Error returns the message, and the suggestion if there is one.
func (e *Error) Error() string {
	if e.Suggestion == "" {
		return e.Message
	}
	return e.Message + " (" + e.Suggestion + ")"
}

// Unwrap returns the kind of the error.
func (e *Error) Unwrap() error { return e.Kind }
