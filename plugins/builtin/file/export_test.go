package file

import (
	"bytes"
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

// LogLine is a line of the log of a container, as ParseLog returns it.
type LogLine struct {
	Stream  string
	Created int64
	Partial bool
	Text    string
}

// ParseLog parses a line of the log of a container. quick reports whether it was parsed without package json.
func ParseLog(format string, line []byte) (l LogLine, quick bool, err error) {
	p := logParser{format: format}
	if format == "docker" {
		_, quick = p.quickDocker(bytes.Clone(line))
	}
	parsed, err := p.parse(bytes.Clone(line))
	if err != nil {
		return l, quick, err
	}
	return LogLine{streams[parsed.lane], parsed.created, parsed.partial, string(parsed.text)}, quick, nil
}

// ContainerOf is containerOf.
var ContainerOf = containerOf

// Held returns the number of bytes of the unfinished records of a source.
func Held(s sdk.Source) int { return s.(*Source).options.held.bytes }

// BufferSize returns the size of the buffer of a source that reads one file.
func BufferSize(s sdk.Source) int { return cap(s.(*Source).reader.(*single).buf) }
