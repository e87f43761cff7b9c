// Package mqtt provides a source that subscribes to topics of an MQTT 5 server, and a destination that publishes
// records.
package mqtt

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "mqtt",
		Summary: "Subscribes to topics of an MQTT server, or publishes.",
		Description: "A source with its own session at the server (MQTT 5), which acknowledges a message when the " +
			"pipeline has acknowledged its record, and a destination that publishes records and waits until the " +
			"server has accepted each one.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
