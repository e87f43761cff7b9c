// Package prometheus provides a destination that sends samples with the protocol remote write, and a source that
// receives such requests or scrapes targets.
package prometheus

import "github.com/conduit-agent/conduit/plugins/sdk"

const version = "v1.0.0"

// Connector returns the connector with its source and destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:    "prometheus",
		Summary: "Sends and receives samples with Prometheus remote write, and scrapes targets.",
		Description: "A destination that sends samples with remote write 1.0 or 2.0 to Prometheus and servers with the " +
			"same protocol. A source that receives remote write, and responds once all records of the request are " +
			"acknowledged, or that scrapes targets in the text format. Each sample is a record.",
		Version:        version,
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &Source{} },
		NewDestination: func() sdk.Destination { return &Destination{} },
	}
}

// keyKind is the metadata with the kind of a record of the source: one of the kinds.
const keyKind = "prometheus.kind"

// Kinds of records.
const (
	kindSample    = "sample"
	kindHistogram = "histogram"
	kindExemplar  = "exemplar"
	kindMetadata  = "metadata" // type, help and unit of a metric, without a value
)

// Members of payloads.
const (
	memberName      = "name"
	memberLabels    = "labels"
	memberValue     = "value"
	memberHistogram = "histogram"
	memberExemplar  = "exemplar"
	memberStart     = "startTimestamp" // milliseconds since 1970
	memberType      = "type"
	memberHelp      = "help"
	memberUnit      = "unit"
)

// nameLabel is the label with the name of the metric.
const nameLabel = "__name__"

// maxLabels is the maximum size of the name and the labels of a series in bytes.
const maxLabels = 64 << 10

// types are the names of the types of metrics, by their numbers in the protocol.
var types = [...]string{"unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}
