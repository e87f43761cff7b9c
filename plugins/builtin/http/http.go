// Package http provides a source that receives requests or polls a URL, and a destination that sends requests.
package http

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "http",
		Summary: "Receives HTTP requests, polls a URL, or sends requests.",
		Description: "A source that either is a server (setting address), which responds with 2xx only when the " +
			"records of a request are acknowledged, or polls a URL (setting url) with a cursor, ETag and pagination. " +
			"A destination that sends records in requests, and retries until they are accepted.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Bodies have no schema.
		SourceDefaults: sdk.NoSchemas(),
	}
}
