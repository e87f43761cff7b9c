package file

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// LeaveAfter sets how long a file whose path is free is followed, and returns what undoes that.
func LeaveAfter(d time.Duration) (restore func()) {
	before := leaveAfter
	leaveAfter = d
	return func() { leaveAfter = before }
}

// Open returns how many files a destination has open.
func Open(d sdk.Destination) int { return len(d.(*Destination).open) }
