// Package websocket provides a source that receives messages over WebSockets, and a destination that sends records as
// messages. Both either connect to a server, or are a server that clients connect to.
package websocket

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "websocket",
		Summary: "Receives messages over WebSockets, or sends records as messages.",
		Description: "A source that connects to a server, or accepts clients, and makes a record of each message; " +
			"as a server it can acknowledge them. A destination that sends each record as a message, to a server or " +
			"to all connected clients, and waits until the other side has read it.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
