package rest

import (
	"time"
)

// Processor changes or drops records of a pipeline or connector.
type Processor struct {
	// <parent>:<processor>. Can be set when the processor is created.
	ID     string          `json:"id"`
	Config ProcessorConfig `json:"config"`
	// Go template that yields true or false. Empty: all records.
	Condition string    `json:"condition"`
	Plugin    string    `json:"plugin"`
	Parent    Parent    `json:"parent"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// ProcessorRequest is a processor in a request, where the plugin may go by its former name.
type ProcessorRequest struct {
	Processor
	// Former name of plugin.
	Type string `json:"type,omitempty"`
}

// ProcessorUpdate is a processor in a request to change it. An optional field that is absent stays unchanged, as
// clients may not know it.
type ProcessorUpdate struct {
	ProcessorRequest
	// Left out: unchanged.
	Condition *string               `json:"condition,omitempty"`
	Config    ProcessorConfigUpdate `json:"config"`
}

// ProcessorConfigUpdate is a ProcessorConfig in a request to change it.
type ProcessorConfigUpdate struct {
	Settings map[string]string `json:"settings"`
	// Left out: unchanged.
	Workers *int `json:"workers,omitempty"`
}

// ProcessorConfig is the settings of a processor and its number of workers.
type ProcessorConfig struct {
	Settings map[string]string `json:"settings"`
	Workers  int               `json:"workers"`
}

// Parent is the owner of a processor.
type Parent struct {
	Type ParentType `json:"type"`
	ID   string     `json:"id"`
}

// ParentType is the kind of a Parent.
type ParentType string

// The kinds of parents.
const (
	ParentPipeline  ParentType = "TYPE_PIPELINE"
	ParentConnector ParentType = "TYPE_CONNECTOR"
)

// Enum lists the kinds.
func (ParentType) Enum() []string { return []string{"TYPE_PIPELINE", "TYPE_CONNECTOR"} }
