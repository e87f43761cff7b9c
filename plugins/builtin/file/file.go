// Package file is a source that follows the lines of a growing file, and a
// destination that appends a line per record to one.
package file

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:           "file",
		Summary:        "Reads the lines of a file, or writes records to one.",
		Description:    "A source that follows the lines of a file through growth, rotation and truncation, and a destination that appends every record to a file as one line.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Lines are raw, so there is nothing to extract a schema from.
		SourceDefaults: sdk.NoSchemas(),
	}
}
