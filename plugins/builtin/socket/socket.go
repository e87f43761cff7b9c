// Package socket provides a source that receives frames over plain TCP, TLS, UDP and Unix sockets, and a destination
// that sends them. Both can listen or connect.
package socket

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "socket",
		Summary: "Receives or sends frames over TCP, TLS, UDP and Unix sockets.",
		Description: "A source that receives lines, frames with a length, or packets over TCP, TLS, UDP and Unix " +
			"sockets, and reads no more from a connection than the pipeline acknowledges; and a destination that " +
			"sends them. Both can listen or connect.",
		Version:        version,
		Author:         "conduit",
		SourceDefaults: sdk.NoSchemas(),
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
