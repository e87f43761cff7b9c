package spec

import "errors"

// What reading and changing desired state returns for a caller to branch on, with errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("changed by somebody else in the meantime")
)
