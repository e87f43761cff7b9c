// Package syslog is a source that receives messages as a syslog server does, over UDP, TCP and
// TLS, and a destination that sends them. Messages are those of RFC 5424 and RFC 3164, framed on
// streams as RFC 6587 has it.
package syslog

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "syslog",
		Summary: "Receives syslog messages, or sends them.",
		Description: "A source that is a syslog server, over UDP, TCP and TLS, for messages of RFC 5424 and RFC 3164, and takes no more from a connection than " +
			"the pipeline acknowledges; and a destination that sends messages to a syslog server.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
