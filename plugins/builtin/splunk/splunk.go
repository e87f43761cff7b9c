// Package splunk provides a destination that sends events to the HTTP Event Collector of Splunk.
package splunk

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "splunk",
		Summary: "Sends events to the HTTP Event Collector (HEC) of Splunk.",
		Description: "A destination that sends records as events, and waits until the indexers have acknowledged " +
			"them if the token has acknowledgement. An event that the collector refuses becomes a dead letter.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
