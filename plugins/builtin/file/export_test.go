package file

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// LeaveAfter sets leaveAfter, and returns a function that restores it.
func LeaveAfter(d time.Duration) (restore func()) {
	before := leaveAfter
	leaveAfter = d
	return func() { leaveAfter = before }
}

// Open returns the number of files that a destination has open.
func Open(d sdk.Destination) int { return len(d.(*Destination).open) }
