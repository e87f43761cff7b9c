// Package journald is a source that reads the journal of systemd. It runs journalctl, which knows
// the format of the files.
package journald

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:        "journald",
		Summary:     "Reads the journal of systemd.",
		Description: "A source that follows the journal of systemd from its position, with the fields of each entry, and says when entries are gone before they were read.",
		Version:     version,
		Author:      "conduit",
		NewSource:   func() sdk.Source { return &Source{} },

		// The fields of entries differ from one to the next.
		SourceDefaults: sdk.NoSchemas(),
	}
}
