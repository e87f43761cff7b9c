// Package file provides a source that follows the lines of growing files, and a destination that appends one line per
// record to a file.
package file

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "file",
		Summary: "Reads the lines of files, or writes records to one.",
		Description: "A source that follows the lines of a file, or of those in a directory, through growth, " +
			"rotation, truncation and compression, and a destination that appends every record to a file as one " +
			"line, and rotates it.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Lines are raw and have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
