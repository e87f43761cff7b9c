// Package redis provides a source that reads streams, lists and channels of a Redis server, and a destination that
// writes them.
package redis

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "redis",
		Summary: "Reads and writes streams, lists and channels of a Redis server, and writes strings and hashes.",
		Description: "A source that reads a stream from its position and reports entries trimmed before they were " +
			"read, or takes elements of a list and removes them when the pipeline has acknowledged them, or " +
			"subscribes to channels. A destination with exactly-once delivery to streams and lists, " +
			"which also keeps a string or a hash for each key, as a cache.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Entries have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
