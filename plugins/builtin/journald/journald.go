// Package journald provides a source that reads the systemd journal. It runs journalctl, which implements the file
// format.
package journald

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "journald",
		Summary: "Reads the journal of systemd.",
		Description: "A source that follows the journal of systemd from its position, with the fields of each entry, " +
			"and reports entries that were removed before they were read.",
		Version:   version,
		Author:    "conduit",
		NewSource: func() sdk.Source { return &Source{} },

		// Each entry may have different fields.
		SourceDefaults: sdk.NoSchemas(),
	}
}
