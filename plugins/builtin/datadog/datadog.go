// Package datadog provides a destination that sends logs to Datadog and other servers with its API for logs.
package datadog

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "datadog",
		Summary: "Sends logs to Datadog and servers with the same API.",
		Description: "A destination that sends records as logs, with service, source, host and tags as templates. " +
			"A log that the server refuses becomes a dead letter.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
