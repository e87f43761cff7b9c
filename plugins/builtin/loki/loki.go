// Package loki provides a destination that writes log lines to Grafana Loki and other servers with its push API.
package loki

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "loki",
		Summary: "Writes log lines to Grafana Loki and servers with the same push API.",
		Description: "A destination that writes records as log lines, in streams with labels that are templates. " +
			"A line that is sent again with the same time is kept once. A line that the server refuses becomes a " +
			"dead letter.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
