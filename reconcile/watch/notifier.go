package watch

import "errors"

// event is a change at a path that a notifier watches, or of an entry of a directory that it watches.
type event struct {
	name string
	op   op
}

// op describes a change. An event may combine several.
type op uint8

const (
	created  op = 1 << iota // the name is new, or leads to another file
	written                 // the content changes
	complete                // a file that was open for writing was closed; only Linux reports it
	removed                 // the name is gone, or leads to another file
	changed                 // attributes changed
)

// interest is what a notifier reports of a path. A file that is written to all the time costs as much as its writes if
// its directory is watched for contents.
type interest uint8

const (
	names    interest = 1 << iota // the path itself, and the entries of a directory that come and go
	contents                      // also writes to a file, or to the entries of a directory
)

// errOverflow means that the queue of the kernel was full, so that events were lost.
var errOverflow = errors.New("the queue of file system events is full")
