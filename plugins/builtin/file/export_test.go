package file

import (
	"strings"
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

// OpenFiles returns the number of files that a source of several files has open.
func OpenFiles(s sdk.Source) (n int) {
	for _, one := range s.(*Source).reader.(*follower).order {
		if one.file != nil {
			n++
		}
	}
	return n
}

// Match reports whether a pattern matches a path.
func Match(pattern, path string) bool { return elementsOf(pattern).match(strings.Split(path, "/")) }

// CheckPattern is checkPattern.
var CheckPattern = checkPattern

// LedgerKeep sets the size up to which a ledger is not rewritten, and returns a function that restores it.
func LedgerKeep(n int64) (restore func()) {
	before := ledgerKeep
	ledgerKeep = n
	return func() { ledgerKeep = before }
}
