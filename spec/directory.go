package spec

import "time"

// Directory is how it stands with the directory of the pipeline files.
type Directory struct {
	State   DirectoryState `json:"state"`
	Message string         `json:"message,omitempty"` // why it is not ok; for people
	Since   time.Time      `json:"since,omitzero"`    // since when it is in this state
}

// DirectoryState says whether the pipeline files can be followed.
type DirectoryState string

// The states of the directory.
const (
	DirectoryOK         DirectoryState = "ok"
	DirectoryPolled     DirectoryState = "polled"     // changes are found by polling, because there are no events
	DirectoryMissing    DirectoryState = "missing"    // there is no directory
	DirectoryUnreadable DirectoryState = "unreadable" // the path exists, but cannot be read as a directory
	DirectoryHeld       DirectoryState = "held"       // all files are gone, which may be an accident: nothing is withdrawn
)

// DirectoryStates are all states there are.
var DirectoryStates = []DirectoryState{DirectoryOK, DirectoryPolled, DirectoryMissing, DirectoryUnreadable, DirectoryHeld}

// Followed reports whether the states of the files are current.
func (s DirectoryState) Followed() bool { return s == DirectoryOK || s == DirectoryPolled }

// Enum lists the states.
func (DirectoryState) Enum() []string {
	names := make([]string, len(DirectoryStates))
	for i, s := range DirectoryStates {
		names[i] = string(s)
	}
	return names
}
