// Package syslog provides a source that receives messages as a syslog server over UDP, TCP and TLS, and a destination
// that sends them. It supports the message formats of RFC 5424 and RFC 3164, and the framing of RFC 6587 on
// connections.
package syslog

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "syslog",
		Summary: "Receives syslog messages, or sends them.",
		Description: "A source that is a syslog server, over UDP, TCP and TLS, for messages of RFC 5424 and RFC " +
			"3164, and reads no more from a connection than the pipeline acknowledges; and a destination that sends " +
			"messages to a syslog server.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
