package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

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

// PipelineConfig is the user-supplied description of a pipeline, without what only PipelineDocument has. Its fields are
// applied by Create and Update in api/pipelines.go, and filled by shown there and DocumentOf here.
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
