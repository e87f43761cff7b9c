// Package nats is a source that reads a stream of NATS JetStream or subscribes to subjects, and a
// destination that publishes.
package nats

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "nats",
		Summary: "Reads JetStream streams or NATS subjects, or publishes.",
		Description: "A source that reads a stream of JetStream in order and acknowledges a message when the pipeline did, or that subscribes to subjects. " +
			"A destination that publishes and waits until a stream has each message, with ids by which the server drops those that come twice.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages come without a schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
