package file

import "time"

// LeaveAfter sets how long a file whose path is free is followed, and returns what undoes that.
func LeaveAfter(d time.Duration) (restore func()) {
	before := leaveAfter
	leaveAfter = d
	return func() { leaveAfter = before }
}
