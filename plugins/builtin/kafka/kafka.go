// Package kafka provides a source that consumes topics of Apache Kafka, and a destination that produces to them.
// Settings, records and positions have the format of Conduit's connector of the same name, with additions.
package kafka

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector describes the source and the destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "kafka",
		Summary: "Consumes topics of Apache Kafka, or produces to them.",
		Description: "A source that reads topics as a member of a consumer group: committed transactions only, in " +
			"the order of each partition, resuming from the position of the pipeline or the offsets of the group, " +
			"whichever is further. A destination that writes every record as a message, in transactions for " +
			"exactly-once delivery if requested.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Messages are raw data, which has no schema to extract.
		SourceDefaults: sdk.NoSchemas(),
	}
}
