package rest

import (
	"github.com/conduit-agent/conduit/spec"
)

// PipelineDocument is a pipeline with its connectors, processors and dead-letter queue.
type PipelineDocument struct {
	ID          string              `json:"id"`
	Status      spec.Status         `json:"status,omitempty" doc:"running, which is the default, or stopped."`
	Name        string              `json:"name,omitempty" doc:"The id when left out."`
	Description string              `json:"description,omitempty"`
	MaxSilence  string              `json:"maxSilence,omitempty" doc:"How long its sources may read no record before that is reported, such as 15m."`
	Labels      map[string]string   `json:"labels,omitempty" doc:"For selecting pipelines."`
	Routing     spec.Routing        `json:"routing,omitempty" doc:"Which of the destinations with a condition get a record: all whose condition is true, which is the default, or the first."`
	Cluster     spec.ClusterMode    `json:"cluster,omitempty" doc:"What it does in a cluster of agents while the store of the cluster is out of reach: strict, which is the default, relaxed or local."`
	Placement   spec.Placement      `json:"placement,omitzero" doc:"On which members of a cluster it may run."`
	Instances   spec.Instances      `json:"instances,omitempty" doc:"How many members of a cluster run it at the same time: a number, or all. A pipeline that the API declares has one."`
	Connectors  []ConnectorDocument `json:"connectors,omitempty"`
	Processors  []ProcessorDocument `json:"processors,omitempty"`
	DLQ         *DLQDocument        `json:"dlq,omitempty" doc:"The default one when left out."`
}

// ConnectorDocument is a connector with its processors.
type ConnectorDocument struct {
	ID         string              `json:"id" doc:"With or without the id of the pipeline before it."`
	Type       spec.ConnectorType  `json:"type" doc:"source or destination."`
	Plugin     string              `json:"plugin" doc:"[builtin:|standalone:|any:]name[@version]"`
	Name       string              `json:"name,omitempty" doc:"The id when left out."`
	Condition  string              `json:"condition,omitempty" doc:"Of a destination: the template that is true for the records that it gets. All records when left out."`
	Default    bool                `json:"default,omitempty" doc:"Of a destination: it gets the records for which no condition is true."`
	Settings   map[string]string   `json:"settings,omitempty" doc:"*** keeps the value there is."`
	Processors []ProcessorDocument `json:"processors,omitempty"`
}

// ProcessorDocument is a processor.
type ProcessorDocument struct {
	ID        string            `json:"id" doc:"With or without the id of its parent before it."`
	Plugin    string            `json:"plugin"`
	Settings  map[string]string `json:"settings,omitempty" doc:"*** keeps the value there is."`
	Workers   int               `json:"workers,omitempty" doc:"1 when left out."`
	Condition string            `json:"condition,omitempty"`
}

// DLQDocument is a dead-letter queue. Its fields are optional, as in a pipeline file.
type DLQDocument struct {
	Plugin              string            `json:"plugin,omitempty"`
	Settings            map[string]string `json:"settings,omitempty" doc:"*** keeps the value there is."`
	WindowSize          *Count            `json:"windowSize,omitempty" doc:"1 when left out."`
	WindowNackThreshold Count             `json:"windowNackThreshold,omitempty"`
}

// DocumentOf returns a pipeline as a document.
func DocumentOf(p *spec.Pipeline) PipelineDocument {
	size := Count(p.DLQ.WindowSize)
	doc := PipelineDocument{
		ID: p.ID, Status: p.Status, Name: p.Name, Description: p.Description, MaxSilence: p.MaxSilence,
		Labels: p.Labels, Routing: p.Routing,
		Cluster: p.Cluster, Placement: p.Placement, Instances: p.Instances,
		Processors: processorDocuments(p.Processors),
		DLQ: &DLQDocument{Plugin: p.DLQ.Plugin, Settings: p.DLQ.Settings, WindowSize: &size,
			WindowNackThreshold: Count(p.DLQ.WindowNackThreshold)},
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
	Hash   string           `json:"hash" doc:"Of the plan."`
}

// DocumentDiff is the set of changes that a document makes.
type DocumentDiff struct {
	PipelineID string           `json:"pipelineId"`
	Changes    []ResourceChange `json:"changes" doc:"The pipeline first, then its connectors and processors by id; empty when there is nothing to do."`
	Hash       string           `json:"hash" doc:"Identifies the document and what is declared so far."`
}

// ResourceChange is the change of a pipeline, a connector or a processor. It never contains the values of settings.
type ResourceChange struct {
	Resource    ResourceKind   `json:"resource"`
	ID          string         `json:"id"`
	Action      ResourceAction `json:"action"`
	Effect      ResourceEffect `json:"effect" doc:"On the pipeline while it runs."`
	ExactEffect spec.Effect    `json:"exactEffect" doc:"none, in-place, restart-destination, restart or position-lost."`
	ConfigPaths []string       `json:"configPaths" doc:"Fields of the document that an update is about."`
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
