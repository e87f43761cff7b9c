package rest

import (
	"github.com/conduit-agent/conduit/spec"
)

// PipelineDocument is a pipeline with its connectors, processors and dead-letter queue.
type PipelineDocument struct {
	ID              string                   `json:"id"`
	Status          spec.Status              `json:"status,omitempty" doc:"running (default) or stopped."`
	Name            string                   `json:"name,omitempty" doc:"Default: the id."`
	Description     string                   `json:"description,omitempty"`
	MaxSilence      string                   `json:"maxSilence,omitempty" doc:"Time without a record from any source, such as 15m, after which the pipeline is reported as silent."`
	Labels          map[string]string        `json:"labels,omitempty" doc:"Labels to select pipelines by."`
	Routing         spec.Routing             `json:"routing,omitempty" doc:"Destinations that get a record, among those whose condition is true: all (default) or the first."`
	Cluster         spec.ClusterMode         `json:"cluster,omitempty" doc:"Behavior in a cluster while the store of the cluster is unreachable: strict (default), relaxed or local."`
	Placement       spec.Placement           `json:"placement,omitzero" doc:"Members of a cluster that may run the pipeline."`
	Instances       spec.Instances           `json:"instances,omitempty" doc:"Number of members of a cluster that run the pipeline at the same time, or all. A pipeline that the API declares has one."`
	Connectors      []ConnectorDocument      `json:"connectors,omitempty"`
	Processors      []ProcessorDocument      `json:"processors,omitempty"`
	DeadLetterQueue *DeadLetterQueueDocument `json:"dlq,omitempty" doc:"Left out: the default dead-letter queue."`
}

// ConnectorDocument is a connector with its processors.
type ConnectorDocument struct {
	ID         string              `json:"id" doc:"Id, with or without the id of the pipeline in front."`
	Type       spec.ConnectorType  `json:"type" doc:"source or destination."`
	Plugin     string              `json:"plugin" doc:"[builtin:|standalone:|any:]name[@version]"`
	Name       string              `json:"name,omitempty" doc:"Default: the id."`
	Condition  string              `json:"condition,omitempty" doc:"For a destination: Go template that yields true for the records that it gets. Left out: all records."`
	Default    bool                `json:"default,omitempty" doc:"For a destination: it gets the records for which no condition is true."`
	Settings   map[string]string   `json:"settings,omitempty" doc:"*** keeps the current value."`
	Processors []ProcessorDocument `json:"processors,omitempty"`
}

// ProcessorDocument is a processor.
type ProcessorDocument struct {
	ID        string            `json:"id" doc:"Id, with or without the id of the parent in front."`
	Plugin    string            `json:"plugin"`
	Settings  map[string]string `json:"settings,omitempty" doc:"*** keeps the current value."`
	Workers   int               `json:"workers,omitempty" doc:"Default: 1."`
	Condition string            `json:"condition,omitempty"`
}

// DeadLetterQueueDocument is a dead-letter queue. Its fields are optional, as in a pipeline file.
type DeadLetterQueueDocument struct {
	Plugin              string            `json:"plugin,omitempty"`
	Settings            map[string]string `json:"settings,omitempty" doc:"*** keeps the current value."`
	WindowSize          *Count            `json:"windowSize,omitempty" doc:"Default: 1."`
	WindowNackThreshold Count             `json:"windowNackThreshold,omitempty"`
	KeepOriginal        bool              `json:"keepOriginal,omitempty" doc:"Dead letters also keep the record as it was read, for replays from the first processor."`
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
			Default: c.Default, Settings: c.Settings, Processors: processorDocuments(c.Processors),
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
	Hash   string           `json:"hash" doc:"Hash of the plan."`
}

// DocumentDiff is the set of changes that a document makes.
type DocumentDiff struct {
	PipelineID string           `json:"pipelineId"`
	Changes    []ResourceChange `json:"changes" doc:"The pipeline, then connectors and processors by id. Empty when nothing changes."`
	Hash       string           `json:"hash" doc:"Identifies the document and the present declaration."`
}

// ResourceChange is the change of a pipeline, a connector or a processor. It never contains the values of settings.
type ResourceChange struct {
	Resource    ResourceKind   `json:"resource"`
	ID          string         `json:"id"`
	Action      ResourceAction `json:"action"`
	Effect      ResourceEffect `json:"effect" doc:"Effect on the running pipeline."`
	ExactEffect spec.Effect    `json:"exactEffect" doc:"none, in-place, restart-destination, restart or position-lost."`
	ConfigPaths []string       `json:"configPaths" doc:"Fields of the document that an update changes."`
	Code        string         `json:"code" doc:"Stable name of the kind of change."`
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
