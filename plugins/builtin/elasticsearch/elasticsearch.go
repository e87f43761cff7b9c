// Package elasticsearch provides a destination that writes documents to Elasticsearch, OpenSearch and other servers
// with their bulk API.
package elasticsearch

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "elasticsearch",
		Summary: "Writes documents to Elasticsearch, OpenSearch and servers with the same bulk API.",
		Description: "A destination that writes records as documents with the bulk API, to indices or to data " +
			"streams. A record that is sent again changes nothing: its key, or its place in the source, is the id " +
			"of its document. A document that the server refuses becomes a dead letter.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}
