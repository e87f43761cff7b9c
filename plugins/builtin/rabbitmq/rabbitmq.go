// Package rabbitmq provides a source that reads a queue or a stream of RabbitMQ, and a destination that publishes
// records with publisher confirms.
package rabbitmq

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "rabbitmq",
		Summary: "Reads a RabbitMQ queue or stream, or publishes.",
		Description: "A source that reads a classic queue, a quorum queue or a stream over AMQP 0-9-1, and " +
			"acknowledges a message when the pipeline has acknowledged its record. A destination that publishes " +
			"persistent messages, waits for the confirmation of each one, and refuses unroutable records.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
