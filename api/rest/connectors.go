package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Connector is one end of a pipeline.
type Connector struct {
	// <pipeline>:<connector>. Can be set when the connector is created, with or without the pipeline.
	ID               string            `json:"id"`
	SourceState      *SourceState      `json:"sourceState,omitempty"`
	DestinationState *DestinationState `json:"destinationState,omitempty"`
	Config           ConnectorConfig   `json:"config"`
	Type             ConnectorType     `json:"type"`
	// [builtin:|standalone:|any:]name[@version]
	Plugin       string    `json:"plugin"`
	PipelineID   string    `json:"pipelineId"`
	ProcessorIDs []string  `json:"processorIds"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// SourceState is the state of a source: its position.
type SourceState struct {
	Position []byte `json:"position"`
}

// DestinationState is the state of a destination: its positions by source.
type DestinationState struct {
	Positions map[string][]byte `json:"positions"`
}

// ConnectorConfig is the name and the settings of a connector.
type ConnectorConfig struct {
	Name string `json:"name"`
	// Secrets are shown as ***. Writing *** keeps the current value.
	Settings map[string]string `json:"settings"`
	// For a destination: Go template that yields true for the records that it gets. Empty: all records. A change
	// without it keeps it.
	Condition *string `json:"condition,omitempty"`
	// For a destination: it gets the records for which no condition is true. A change without it keeps it.
	Default *bool `json:"default,omitempty"`
	// For a destination: its records wait in a log on disk, so that it holds up no other destination. A change without it
	// keeps it; see isolated.
	Isolate *spec.Isolation `json:"isolate,omitempty"`
	// In a request: false removes isolate, and true isolates a destination with the default limits if isolate has none.
	Isolated *bool `json:"isolated,omitempty"`
}

// ConnectorType is one of the two kinds of connectors.
type ConnectorType string

// The connector types.
const (
	TypeSource      ConnectorType = "TYPE_SOURCE"
	TypeDestination ConnectorType = "TYPE_DESTINATION"
)

// Enum lists the types.
func (ConnectorType) Enum() []string { return []string{"TYPE_SOURCE", "TYPE_DESTINATION"} }

// Validation is a connector to be checked without creating it.
type Validation struct {
	Type   ConnectorType   `json:"type"`
	Plugin string          `json:"plugin"`
	Config ConnectorConfig `json:"config"`
}
