// Package nats provides a source that reads a NATS JetStream stream or subscribes to subjects, and a destination that
// publishes records.
package nats

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "nats",
		Summary: "Reads JetStream streams or NATS subjects, or publishes.",
		Description: "A source that reads a stream of JetStream in order and acknowledges a message when the " +
			"pipeline has acknowledged its record, or that subscribes to subjects. A destination that publishes and " +
			"waits until a stream has stored each message, with ids by which the server drops duplicates.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
