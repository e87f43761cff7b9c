// Package file is a source that follows the lines of growing files, and a
// destination that appends a line per record to one.
package file

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:           "file",
		Summary:        "Reads the lines of files, or writes records to one.",
		Description:    "A source that follows the lines of a file, or of those in a directory, through growth, rotation, truncation and compression, and a destination that appends every record to a file as one line, and rotates it.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Lines are raw, so there is nothing to extract a schema from.
		SourceDefaults: sdk.NoSchemas(),
	}
}
