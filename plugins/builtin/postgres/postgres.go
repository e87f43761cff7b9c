// Package postgres provides a source that reads a snapshot of PostgreSQL tables and then their changes by logical
// replication, and a destination that writes to tables.
package postgres

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "postgres",
		Summary: "Reads tables of PostgreSQL and their changes, or writes to tables.",
		Description: "A source that reads tables, first their rows and then every change, by logical replication, " +
			"and loses none; and a destination that inserts, updates and deletes rows by their key, with " +
			"exactly-once delivery if requested.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: New,

		// The source knows the column types and attaches the schemas itself.
		SourceDefaults: sdk.NoSchemas(),
	}
}
