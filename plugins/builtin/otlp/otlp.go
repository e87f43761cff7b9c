// Package otlp provides a source that receives logs, metrics and traces over the OpenTelemetry Protocol, and a
// destination that sends them. The protocol is defined at https://opentelemetry.io/docs/specs/otlp/.
package otlp

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "otlp",
		Summary: "Receives or sends logs, metrics and traces over the OpenTelemetry Protocol.",
		Description: "A source that receives logs, metrics and traces over gRPC and HTTP, and answers a request only " +
			"when its records are acknowledged. A destination that sends such records, and other records as logs, in " +
			"batches over gRPC or HTTP.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },

		// Attributes differ from record to record.
		SourceDefaults: sdk.NoSchemas(),
	}
}
