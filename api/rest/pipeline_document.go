package rest

import (
	"github.com/conduit-agent/conduit/spec"
)

// PipelineDocument is a pipeline with its connectors, processors and dead-letter queue.
type PipelineDocument struct {
	ID string `json:"id"`
	// running (default) or stopped.
	Status spec.Status `json:"status,omitempty"`
	// Default: the id.
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Time without a record from any source, such as 15m, after which the pipeline is reported as silent.
	MaxSilence string `json:"maxSilence,omitempty"`
	// Labels to select pipelines by.
	Labels map[string]string `json:"labels,omitempty"`
	// Destinations that get a record, among those whose condition is true: all (default) or the first.
	Routing spec.Routing `json:"routing,omitempty"`
	// Behavior in a cluster while the store of the cluster is unreachable: strict (default), relaxed or local.
	Cluster spec.ClusterMode `json:"cluster,omitempty"`
	// Members of a cluster that may run the pipeline.
	Placement spec.Placement `json:"placement,omitzero"`
	// Number of members of a cluster that run the pipeline at the same time, or all. A pipeline that the API declares
	// has one.
	Instances  spec.Instances      `json:"instances,omitempty"`
	Connectors []ConnectorDocument `json:"connectors,omitempty"`
	Processors []ProcessorDocument `json:"processors,omitempty"`
	// Left out: the default dead-letter queue.
	DeadLetterQueue *DeadLetterQueueDocument `json:"dlq,omitempty"`
}

// ConnectorDocument is a connector with its processors.
type ConnectorDocument struct {
	// Id, with or without the id of the pipeline in front.
	ID string `json:"id"`
	// source or destination.
	Type spec.ConnectorType `json:"type"`
	// [builtin:|standalone:|any:]name[@version]
	Plugin string `json:"plugin"`
	// Default: the id.
	Name string `json:"name,omitempty"`
	// For a destination: Go template that yields true for the records that it gets. Left out: all records.
	Condition string `json:"condition,omitempty"`
	// For a destination: it gets the records for which no condition is true.
	Default bool `json:"default,omitempty"`
	// For a destination: its records wait in a log on disk, so that it holds up no other destination.
	Isolate *spec.Isolation `json:"isolate,omitempty"`
	// *** keeps the current value.
	Settings   map[string]string   `json:"settings,omitempty"`
	Processors []ProcessorDocument `json:"processors,omitempty"`
}

// ProcessorDocument is a processor.
type ProcessorDocument struct {
	// Id, with or without the id of the parent in front.
	ID     string `json:"id"`
	Plugin string `json:"plugin"`
	// *** keeps the current value.
	Settings map[string]string `json:"settings,omitempty"`
	// Default: 1.
	Workers   int    `json:"workers,omitempty"`
	Condition string `json:"condition,omitempty"`
}

// DeadLetterQueueDocument is a dead-letter queue. Its fields are optional, as in a pipeline file.
type DeadLetterQueueDocument struct {
	Plugin string `json:"plugin,omitempty"`
	// *** keeps the current value.
	Settings map[string]string `json:"settings,omitempty"`
	// Default: 1.
	WindowSize          *Count `json:"windowSize,omitempty"`
	WindowNackThreshold Count  `json:"windowNackThreshold,omitempty"`
	// Dead letters also keep the record as it was read, for replays from the first processor.
	KeepOriginal bool `json:"keepOriginal,omitempty"`
}

// DocumentOf returns a pipeline as a document.
func DocumentOf(p *spec.Pipeline) PipelineDocument {
	size := Count(p.DeadLetterQueue.WindowSize)
	doc := PipelineDocument{
		ID: p.ID, Status: p.Status, Name: p.Name, Description: p.Description, MaxSilence: p.MaxSilence,
		Labels: p.Labels, Routing: p.Routing,
		Cluster: p.Cluster, Placement: p.Placement, Instances: p.Instances,
		Processors: processorDocuments(p.Processors),
		DeadLetterQueue: &DeadLetterQueueDocument{
			Plugin:              p.DeadLetterQueue.Plugin,
			Settings:            p.DeadLetterQueue.Settings,
			WindowSize:          &size,
			WindowNackThreshold: Count(p.DeadLetterQueue.WindowNackThreshold),
			KeepOriginal:        p.DeadLetterQueue.KeepOriginal,
		},
	}
	for _, c := range p.Connectors {
		doc.Connectors = append(doc.Connectors, ConnectorDocument{
			ID: c.ID, Type: c.Type, Plugin: c.Plugin, Name: c.Name, Condition: c.Condition,
			Default: c.Default, Isolate: c.Isolate.Clone(), Settings: c.Settings, Processors: processorDocuments(c.Processors),
		})
	}
	return doc
}

func processorDocuments(all []spec.Processor) (docs []ProcessorDocument) {
	for _, p := range all {
		docs = append(docs, ProcessorDocument{ID: p.ID, Plugin: p.Plugin, Settings: p.Settings, Workers: p.Workers,
			Condition: p.Condition})
	}
	return docs
}

// DocumentPlan requests the plan of a document.
type DocumentPlan struct {
	Config PipelineDocument `json:"config"`
}

// DocumentApply requests that a document is applied as planned.
type DocumentApply struct {
	Config PipelineDocument `json:"config"`
	// Hash of the plan.
	Hash string `json:"hash"`
}

// DocumentDiff is the set of changes that a document makes.
type DocumentDiff struct {
	PipelineID string `json:"pipelineId"`
	// The pipeline, then connectors and processors by id. Empty when nothing changes.
	Changes []ResourceChange `json:"changes"`
	// Identifies the document and the present declaration.
	Hash string `json:"hash"`
}

// ResourceChange is the change of a pipeline, a connector or a processor. It never contains the values of settings.
type ResourceChange struct {
	Resource ResourceKind   `json:"resource"`
	ID       string         `json:"id"`
	Action   ResourceAction `json:"action"`
	// Effect on the running pipeline.
	Effect ResourceEffect `json:"effect"`
	// none, in-place, restart-destination, restart or position-lost.
	ExactEffect spec.Effect `json:"exactEffect"`
	// Fields of the document that an update changes.
	ConfigPaths []string `json:"configPaths"`
	// Stable name of the kind of change.
	Code string `json:"code"`
}

// ResourceKind is the kind of resource that a ResourceChange describes.
type ResourceKind string

// The kinds of resources.
const (
	ResourcePipeline  ResourceKind = "pipeline"
	ResourceConnector ResourceKind = "connector"
	ResourceProcessor ResourceKind = "processor"
)

// Enum lists the kinds.
func (ResourceKind) Enum() []string { return []string{"pipeline", "connector", "processor"} }

// ResourceAction is the action on a resource.
type ResourceAction string

// The actions.
const (
	ResourceCreate ResourceAction = "create"
	ResourceUpdate ResourceAction = "update"
	ResourceDelete ResourceAction = "delete"
)

// Enum lists the actions.
func (ResourceAction) Enum() []string { return []string{"create", "update", "delete"} }

// ResourceEffect says whether a change leaves all connectors open.
type ResourceEffect string

// The effects.
const (
	ResourceInPlace ResourceEffect = "in_place"
	ResourceRestart ResourceEffect = "restart" // restart of the pipeline or of a destination
)

// Enum lists the effects.
func (ResourceEffect) Enum() []string { return []string{"in_place", "restart"} }
