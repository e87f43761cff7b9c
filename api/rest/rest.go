// Package rest has the words that only the REST API uses, shared by its server and its client: the bodies of requests
// and responses, and errors with their codes. Bodies also contain the words of package spec.
//
// The body of a request to create or replace a resource has the shape of the body that reading it returns. Fields that
// only the agent sets, such as state and createdAt, are ignored in requests, so that a resource can be read, edited and
// written back.
//
// The first paragraph of the comment of a field is its description in the OpenAPI document; run go generate ./... after
// a change.
package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// HeaderGeneration is the header of the answer to a write with the resulting generation of the pipeline; for several
// pipelines, it has the generations in their order.
const HeaderGeneration = "Conduit-Generation"

// Pipeline is a pipeline, apart from its connectors and processors.
type Pipeline struct {
	// Can be set when the pipeline is created.
	ID           string         `json:"id"`
	State        PipelineState  `json:"state"`
	Config       PipelineConfig `json:"config"`
	ConnectorIDs []string       `json:"connectorIds"`
	ProcessorIDs []string       `json:"processorIds"`
	CreatedAt    time.Time      `json:"createdAt"`
	UpdatedAt    time.Time      `json:"updatedAt"`
}

// PipelineConfig is the user-supplied description of a pipeline.
type PipelineConfig struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Labels to select pipelines by. A change without labels keeps them.
	Labels map[string]string `json:"labels,omitempty"`
	// Destinations that get a record, among those whose condition is true: all or the first. A change without it keeps
	// it.
	Routing spec.Routing `json:"routing,omitempty"`
}

// PipelineState is the observed state of a pipeline.
type PipelineState struct {
	Status PipelineStatusCode `json:"status"`
	// Why the pipeline is degraded.
	Error         string        `json:"error"`
	StoppedReason StoppedReason `json:"stoppedReason"`
}

// PipelineStatusCode is the status of a pipeline.
type PipelineStatusCode string

// The statuses.
const (
	StatusUnspecified PipelineStatusCode = "STATUS_UNSPECIFIED"
	StatusRunning     PipelineStatusCode = "STATUS_RUNNING"
	StatusStopped     PipelineStatusCode = "STATUS_STOPPED"
	StatusDegraded    PipelineStatusCode = "STATUS_DEGRADED"
	StatusRecovering  PipelineStatusCode = "STATUS_RECOVERING"
)

// Enum lists the statuses.
func (PipelineStatusCode) Enum() []string {
	return []string{"STATUS_UNSPECIFIED", "STATUS_RUNNING", "STATUS_STOPPED", "STATUS_DEGRADED", "STATUS_RECOVERING"}
}

// StoppedReason says who stopped a pipeline.
type StoppedReason string

// The reasons.
const (
	StoppedUnspecified StoppedReason = "STOPPED_REASON_UNSPECIFIED"
	StoppedByUser      StoppedReason = "STOPPED_REASON_USER"
	StoppedBySystem    StoppedReason = "STOPPED_REASON_SYSTEM"
)

// Enum lists the reasons.
func (StoppedReason) Enum() []string {
	return []string{"STOPPED_REASON_UNSPECIFIED", "STOPPED_REASON_USER", "STOPPED_REASON_SYSTEM"}
}

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

// DeadLetterQueue is the dead-letter queue of a pipeline.
type DeadLetterQueue struct {
	Plugin              string            `json:"plugin"`
	Settings            map[string]string `json:"settings"`
	WindowSize          Count             `json:"windowSize"`
	WindowNackThreshold Count             `json:"windowNackThreshold"`
	// Dead letters also keep the record as it was read, for replays from the first processor.
	KeepOriginal bool `json:"keepOriginal,omitempty"`
}

// Count is a number that JSON carries as text, as it does every 64-bit number of this
// API. Requests may also carry it as a number.
type Count uint64

// MarshalJSON writes c as text.
func (c Count) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(c), 10)), nil
}

// UnmarshalJSON reads a number or its text, from 0 to 2147483647.
func (c *Count) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if text != "null" && err != nil {
		// the decoder adds more
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.20q", text), Type: reflect.TypeFor[Count]()}
	}
	*c = Count(n)
	return nil
}

// Plugin describes a connector plugin.
type Plugin struct {
	// Full name, with kind and version.
	Name        string `json:"name"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Author      string `json:"author"`
	// Empty when the plugin has no destination.
	DestinationParams map[string]Parameter `json:"destinationParams"`
	// Empty when the plugin has no source.
	SourceParams map[string]Parameter `json:"sourceParams"`
}

// ProcessorPlugin describes a processor plugin.
type ProcessorPlugin struct {
	// Full name, with kind and version.
	Name        string               `json:"name"`
	Summary     string               `json:"summary"`
	Description string               `json:"description"`
	Version     string               `json:"version"`
	Author      string               `json:"author"`
	Parameters  map[string]Parameter `json:"parameters"`
}

// Parameter describes a setting.
type Parameter struct {
	Default     string `json:"default"`
	Description string `json:"description"`
	// TYPE_STRING, TYPE_INT, TYPE_FLOAT, TYPE_BOOL, TYPE_FILE or TYPE_DURATION.
	Type        string          `json:"type"`
	Validations []ParameterRule `json:"validations"`
}

// ParameterRule is a rule that a setting must meet.
type ParameterRule struct {
	// TYPE_REQUIRED, TYPE_GREATER_THAN, TYPE_LESS_THAN, TYPE_INCLUSION, TYPE_EXCLUSION or TYPE_REGEX.
	Type  string `json:"type"`
	Value string `json:"value"`
}

// PipelineStatus is the complete status of a pipeline: its owner, its declaration and its running version.
type PipelineStatus struct {
	ID    string     `json:"id"`
	Name  string     `json:"name"`
	Owner spec.Owner `json:"owner"`
	// Version of the declaration.
	Generation int64  `json:"generation"`
	Digest     string `json:"digest"`
	// Status in the declaration.
	Declared spec.Status `json:"declared"`
	// Status that the API requested instead.
	Override spec.Status `json:"override,omitempty"`
	// Time since which the pipeline is no longer declared. It stops after a grace period.
	Withdrawn *time.Time `json:"withdrawn,omitempty"`
	State     spec.State `json:"state"`
	// Member that runs the pipeline, if another member of the cluster should run it.
	Placement *spec.Assignment `json:"placement,omitempty"`
	// Terms of the pipeline in the cluster of the agent; left out for an agent outside a cluster.
	Terms *spec.EffectiveTerms `json:"terms,omitempty"`
	// Instances of a pipeline that declares several.
	Instances *spec.RunningInstances `json:"instances,omitempty"`
	// Dead letters on the disks of other members of the cluster.
	DeadLettersElsewhere []spec.MemberDeadLetters `json:"deadLettersElsewhere,omitempty"`
	// Labels to select pipelines by.
	Labels map[string]string `json:"labels,omitempty"`
	// Problems of the files that declare the pipeline.
	Problems []spec.Problem `json:"problems"`
	// Rates of the running pipeline. Lists leave out the series.
	Rates *spec.PipelineRates `json:"rates,omitempty"`
	// Valid, Applied, Ready, Delivering, Draining, Conflict, RolledBack and PluginChanged, each true or false.
	Conditions []spec.Condition `json:"conditions"`
}

// Inspected is a message of the inspector: a record, or the number of dropped records.
type Inspected struct {
	Result *InspectedRecord `json:"result,omitempty"`
	// Number of records not shown since the last such message.
	Dropped int `json:"dropped,omitempty"`
}

// InspectedRecord is a record in the form that the inspector shows.
type InspectedRecord struct {
	Position  []byte            `json:"position"`
	Operation InspectedOp       `json:"operation"`
	Metadata  map[string]string `json:"metadata"`
	Key       *InspectedData    `json:"key"`
	Payload   InspectedPayload  `json:"payload"`
}

// InspectedOp is the operation of a record.
type InspectedOp string

// Enum lists the operations.
func (InspectedOp) Enum() []string {
	return []string{"OPERATION_UNSPECIFIED", "OPERATION_CREATE", "OPERATION_UPDATE", "OPERATION_DELETE",
		"OPERATION_SNAPSHOT"}
}

// InspectedPayload is the data before and after the change that a record stands for.
type InspectedPayload struct {
	Before *InspectedData `json:"before"`
	After  *InspectedData `json:"after"`
}

// InspectedData is raw or structured data.
type InspectedData struct {
	RawData        []byte         `json:"rawData,omitempty"`
	StructuredData map[string]any `json:"structuredData,omitempty"`
}

// Import is a pipeline file.
type Import struct {
	Version   string          `json:"version,omitempty"`
	Pipelines []spec.Pipeline `json:"pipelines"`
}

// Stop is a request to stop a pipeline.
type Stop struct {
	// Do not wait for the outstanding records, which are then delivered again. A stop that takes longer than
	// pipelines.drain-timeout is forced in any case.
	Force bool `json:"force"`
}

// Rollback is a request to go back to a revision.
type Rollback struct {
	Revision int64 `json:"revision"`
	// Write the revision to the file that declares the pipeline. Otherwise, a pipeline from a file is not changed.
	File bool `json:"file,omitempty"`
}

// Adopt is a request to hand over a pipeline: to a file, or from its file to the API.
type Adopt struct {
	// file (default) or api.
	Owner spec.OwnerKind `json:"owner,omitempty"`
	// Path of the file; needed only when several files declare the pipeline.
	Path string `json:"path,omitempty"`
}

// Reload is a request to read the pipeline files.
type Reload struct {
	// Withdraw the pipelines of missing files even if all files are missing.
	Prune bool `json:"prune"`
}

// Info identifies the server.
type Info struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Health says whether the agent serves.
type Health struct {
	Status string `json:"status"`
}

// Readiness says whether the agent is ready, and counts its pipelines.
type Readiness struct {
	// ready, starting or unavailable.
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// State of the directory of pipeline files. While the directory cannot be used, pipelines run as last declared.
	Directory *spec.Directory `json:"directory,omitempty"`
	Pipelines *ReadyPipelines `json:"pipelines,omitempty"`
	// Use of memory, while sources wait for memory.
	Memory *spec.RecordMemory `json:"memory,omitempty"`
}

// ReadyPipelines counts pipelines.
type ReadyPipelines struct {
	Total    int `json:"total"`
	Running  int `json:"running"`
	Degraded int `json:"degraded"`
	// Pipelines that should run but deliver nothing. They do not affect the readiness of the agent.
	NotDelivering     int                `json:"notDelivering,omitempty"`
	DegradedPipelines []DegradedPipeline `json:"degradedPipelines,omitempty"`
}

// DegradedPipeline is a pipeline that failed for good.
type DegradedPipeline struct {
	ID     string             `json:"id"`
	Status PipelineStatusCode `json:"status"`
	Error  string             `json:"error"`
}

// Empty is an empty body of an answer.
type Empty struct{}
