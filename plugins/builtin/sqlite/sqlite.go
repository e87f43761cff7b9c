// Package sqlite provides a source that reads a snapshot of SQLite tables and then their changes, which triggers
// record, and a destination that writes to tables.
package sqlite

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "sqlite",
		Summary: "Reads tables of a SQLite database and their changes, or writes to tables.",
		Description: "A source that reads tables of a database file, first their rows and then every change, which " +
			"triggers record in a table of the same file; and a destination that inserts, updates and deletes rows " +
			"by their key, with exactly-once delivery if requested.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: newDestination,

		// Columns of SQLite hold values of any type.
		SourceDefaults: sdk.NoSchemas(),
	}
}
