// Package mysql is a destination that writes to tables of MariaDB and MySQL.
package mysql

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:           "mysql",
		Summary:        "Writes to tables of MariaDB or MySQL.",
		Description:    "A destination that inserts, updates and deletes rows of MariaDB or MySQL by their key, if wanted exactly once.",
		Version:        version,
		Author:         "conduit",
		NewDestination: newDestination,
	}
}
