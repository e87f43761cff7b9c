// Package spec is the vocabulary of the agent: pipelines, their problems and their status, dead letters, plans, rates,
// and the view of a cluster. It parses, validates and compares; it opens nothing and keeps no state.
//
// The first paragraph of the comment of a field is its description in the OpenAPI document; run go generate ./... after
// a change.
package spec

import (
	"time"
)

// Pipeline is a declared pipeline. It is the same value in YAML files, in the REST API, in the store and in the engine.
// References such as ${VAR} in settings are kept as written; Resolve replaces them in a copy when the pipeline starts.
type Pipeline struct {
	ID              string            `json:"id"`
	Status          Status            `json:"status"`
	Name            string            `json:"name"`
	Description     string            `json:"description,omitempty"`
	MaxSilence      string            `json:"max-silence,omitempty"` // duration of a silence of its sources to report
	Labels          map[string]string `json:"labels,omitempty"`      // to select pipelines by; no effect on the run
	Routing         Routing           `json:"routing,omitempty"`     // empty: RouteToAll
	Connectors      []Connector       `json:"connectors"`
	Processors      []Processor       `json:"processors,omitempty"`
	DeadLetterQueue DeadLetterQueue   `json:"dead-letter-queue"`
	Terms
}

// Status is the desired state of a pipeline.
type Status string

// The statuses that can be declared.
const (
	StatusRunning Status = "running"
	StatusStopped Status = "stopped"
)

// Connector is one end of a pipeline.
type Connector struct {
	ID         string            `json:"id"` // unique within the pipeline; QualifiedID is unique in the agent
	Type       ConnectorType     `json:"type"`
	Plugin     string            `json:"plugin"`
	Name       string            `json:"name"`
	Condition  string            `json:"condition,omitempty"` // of a destination: Go template of a bool; empty: always
	Default    bool              `json:"default,omitempty"`   // of a destination: gets records that no condition matches
	Isolate    *Isolation        `json:"isolate,omitempty"`   // of a destination: it holds up no other one; nil: it does
	Settings   map[string]string `json:"settings,omitempty"`
	Processors []Processor       `json:"processors,omitempty"`
}

// ConnectorType is the kind of a connector.
type ConnectorType string

// The connector types.
const (
	TypeSource      ConnectorType = "source"
	TypeDestination ConnectorType = "destination"
)

// Processor changes or drops records between a source and a destination.
type Processor struct {
	ID        string            `json:"id"`
	Plugin    string            `json:"plugin"`
	Condition string            `json:"condition,omitempty"` // Go template that yields a bool; empty means always
	Settings  map[string]string `json:"settings,omitempty"`
	Workers   int               `json:"workers"` // at least 1
}

// QualifiedID returns the id of the connector id of this pipeline in the rest of the agent and in the API:
// "<pipeline>:<connector>".
func (p *Pipeline) QualifiedID(id string) string { return p.ID + ":" + id }

// OwnerKind is the kind of the owner of a pipeline.
type OwnerKind string

// The owners of desired state.
const (
	OwnerFile OwnerKind = "file"
	OwnerAPI  OwnerKind = "api"
)

// Owner is the owner of a pipeline, and for a file the place in it.
type Owner struct {
	Kind OwnerKind `json:"kind"`
	Path string    `json:"path,omitempty"` // relative to pipelines.path, with slashes
	Line int       `json:"line,omitempty"` // of the pipeline in the file, from 1
	// Places are the places of the pipeline's values in the file. It is empty when the file does not contain the
	// declaration, or no longer does.
	Places Places `json:"-"`
}

// Declaration is the desired state of a pipeline, as stored.
type Declaration struct {
	Pipeline   Pipeline  `json:"pipeline"`
	Owner      Owner     `json:"owner"`
	Generation int64     `json:"generation"`         // from 1, or continues a deleted one; +1 whenever Digest changes
	Digest     string    `json:"digest"`             // Digest(Pipeline)
	Override   Status    `json:"override,omitempty"` // by the API, of a pipeline of a file; wins over Pipeline.Status
	Withdrawn  time.Time `json:"withdrawn,omitzero"` // when the owner stopped declaring it; zero while it is declared
	Purge      bool      `json:"purge,omitempty"`    // withdrawn by explicit request: no grace, no clean-up delay
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// Want returns the status the pipeline should be in, overrides considered.
func (d *Declaration) Want() Status {
	if d.Override != "" {
		return d.Override
	}
	return d.Pipeline.Status
}

// Phase is the observed phase of a pipeline.
type Phase string

// The phases.
const (
	PhaseStopped    Phase = "stopped"
	PhaseStarting   Phase = "starting"
	PhaseRunning    Phase = "running"
	PhaseStopping   Phase = "stopping"
	PhaseRecovering Phase = "recovering" // failed, will be retried at State.RetryAt
	PhaseDegraded   Phase = "degraded"   // failed permanently until it is changed
)

// State is the observed state of a pipeline. It never claims more than was seen.
type State struct {
	PipelineID        string     `json:"pipelineId"`
	Phase             Phase      `json:"phase"`
	RunningGeneration int64      `json:"runningGeneration,omitempty"` // 0 while nothing runs
	LastAttempt       *Attempt   `json:"lastAttempt,omitempty"`
	LastGood          *LastGood  `json:"lastGood,omitempty"`
	Error             string     `json:"error,omitempty"` // why it is recovering or degraded
	Failures          int        `json:"failures,omitempty"`
	RetryAt           *time.Time `json:"retryAt,omitempty"`
	Stall             *Stall     `json:"stall,omitempty"`         // why it delivers nothing, or nil; never modified
	StoppedByUser     bool       `json:"stoppedByUser,omitempty"` // stopped on request, not because the agent ended
	Since             time.Time  `json:"since"`                   // when Phase was entered
}

// Attempt is the last attempt and its result.
type Attempt struct {
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	Error      string    `json:"error,omitempty"`
	Stage      string    `json:"stage,omitempty"` // qualified id of the connector that failed, if one did
}

// LastGood is the last version of a pipeline that passed its probation. Until then the first version that ran counts,
// which is better than none.
type LastGood struct {
	Generation int64    `json:"generation"`
	Pipeline   Pipeline `json:"pipeline"`
}

// Problem is a fault in a user's input, in words that include a remedy. Excerpt is the lines around the place, from two
// before it, without secrets; only the first problems of a file have one.
type Problem struct {
	File     string   `json:"file,omitempty"` // relative to pipelines.path
	Line     int      `json:"line,omitempty"` // from 1
	Column   int      `json:"column,omitempty"`
	Path     string   `json:"path,omitempty"`     // JSON pointer, /pipelines/0/connectors/1/plugin
	Pipeline string   `json:"pipeline,omitempty"` // id, when it could be read
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // stable, for example config.field_required
	Message  string   `json:"message"`
	Excerpt  string   `json:"excerpt,omitempty"`
}

// Severity determines whether a problem keeps a pipeline from running.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Event is an event of a pipeline or a file, for people to read.
type Event struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Pipeline string    `json:"pipeline,omitempty"`
	File     string    `json:"file,omitempty"`
	Type     string    `json:"type"`   // EventNormal or EventWarning
	Reason   string    `json:"reason"` // CamelCase word: Started, RolledBack, …
	Message  string    `json:"message"`
}

// The types of events.
const (
	EventNormal  = "normal"
	EventWarning = "warning"
)

// Revision is a change of a pipeline's desired state.
type Revision struct {
	Pipeline   string    `json:"pipeline"`
	Number     int64     `json:"number"` // from 1, per pipeline
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	Origin     string    `json:"origin"` // who: "file orders.yaml:3", "api", "rollback to 4"
	Action     string    `json:"action"` // declare, withdraw, delete, "set position of …", "reset position of …"
	Spec       *Pipeline `json:"spec,omitempty"`
}

// FileState is the stored state of a pipeline file. Unseen, which is not stored, is the state of the directory while it
// keeps the file from being read. The other fields are then from the last time it was read.
type FileState struct {
	Path      string         `json:"path"` // relative to pipelines.path, with slashes
	Hash      string         `json:"hash"` // of the content last read; empty when unreadable
	Pipelines []string       `json:"pipelines"`
	Problems  []Problem      `json:"problems,omitempty"`
	SeenAt    time.Time      `json:"seenAt"`
	Unseen    DirectoryState `json:"unseen,omitempty"`
}
