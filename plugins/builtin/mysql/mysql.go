// Package mysql provides a source that reads a snapshot of MariaDB and MySQL tables and then their changes from the
// binary log, and a destination that writes to tables.
package mysql

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "mysql",
		Summary: "Reads tables of MariaDB or MySQL and their changes, or writes to tables.",
		Description: "A source that reads tables, first their rows and then every change, from the binary log, and " +
			"loses none; and a destination that inserts, updates and deletes rows by their key, with exactly-once " +
			"delivery if requested.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: newDestination,
	}
}
