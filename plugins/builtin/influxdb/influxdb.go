// Package influxdb provides a destination that writes points to InfluxDB and other servers with its line protocol.
package influxdb

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "influxdb",
		Summary: "Writes points to InfluxDB 1, 2 and 3, and servers with the same line protocol.",
		Description: "A destination that writes records as points of the line protocol, with tags as templates and " +
			"fields from the payload. A point that is written again replaces itself. A point that the server refuses " +
			"becomes a dead letter.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
