package spec

import "time"

// Directory is the state of the directory of the pipeline files.
type Directory struct {
	State   DirectoryState `json:"state"`
	Message string         `json:"message,omitempty"` // the reason for a state other than ok; for people
	Since   time.Time      `json:"since,omitzero"`    // time at which it entered this state
}

// DirectoryState says whether the pipeline files can be followed.
type DirectoryState string

// The states of the directory.
const (
	DirectoryOK         DirectoryState = "ok"
	DirectoryPolled     DirectoryState = "polled"     // changes are found by polling, because there are no events
	DirectoryMissing    DirectoryState = "missing"    // the directory does not exist
	DirectoryUnreadable DirectoryState = "unreadable" // the path exists, but cannot be read as a directory
	// all files are gone, which may be an accident: nothing is withdrawn
	DirectoryHeld DirectoryState = "held"
	// all files were deleted while the agent followed them, and their pipelines are withdrawn
	DirectoryEmptied DirectoryState = "emptied"
)

// DirectoryStates lists all states.
var DirectoryStates = []DirectoryState{DirectoryOK, DirectoryPolled, DirectoryMissing, DirectoryUnreadable,
	DirectoryHeld, DirectoryEmptied}

// Followed reports whether the states of the files are current.
func (s DirectoryState) Followed() bool {
	return s == DirectoryOK || s == DirectoryPolled || s == DirectoryEmptied
}

// Enum lists the states.
func (DirectoryState) Enum() []string {
	names := make([]string, len(DirectoryStates))
	for i, s := range DirectoryStates {
		names[i] = string(s)
	}
	return names
}
