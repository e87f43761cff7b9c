package spec

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// PipelineRates are the rates of a pipeline, measured over the last seconds.
type PipelineRates struct {
	// Id of the pipeline.
	ID string `json:"id"`
	// Read per second, by all sources.
	Records float64 `json:"records"`
	// Read per second, by all sources.
	Bytes float64 `json:"bytes"`
	// Accepted per second by the destination that accepts least.
	Delivered float64 `json:"delivered"`
	// Mean time in seconds from the settling of a record to its acknowledgment, over the last seconds. Left out when no
	// record was acknowledged.
	Lag *float64 `json:"lag,omitempty"`
	// Age in seconds of the oldest unacknowledged record, since it was read. Left out when there is none.
	Oldest *float64 `json:"oldest,omitempty"`
	// Number of records that went to the dead-letter queue since the start of the agent.
	Refused uint64                `json:"refused"`
	Stages  map[string]StageRates `json:"stages,omitempty"` // by the qualified id of the connector or processor
	// Records per second in the last minutes, one value for each second, the newest last.
	Series []float64 `json:"series,omitempty"` // of the records read
}

// StageRates are the rates of a connector or a processor, measured over the last seconds.
type StageRates struct {
	// Per second.
	Records float64 `json:"records"`
	// Per second.
	Bytes float64 `json:"bytes"`
	// Per second.
	Refused float64 `json:"refused,omitempty"`
	// Per second, by a processor.
	Filtered float64 `json:"filtered,omitempty"`
	// Share of time, from 0 to 1, in which a source reads or waits for records, a processor processes, or a destination
	// writes. Estimated from a sample of the calls.
	Busy float64 `json:"busy"`
	// Lag of a source behind its system, if it is known.
	Behind *progress.Report `json:"behind,omitempty"`
	// Set for an isolated destination: the records that wait in its log, and how fast it accepts them. The other rates
	// are those of the log.
	Backlog *Backlog `json:"backlog,omitempty"`
	// Notes about a processor that are not errors, such as a field that its records do not have.
	Notes []string `json:"notes,omitempty"`
	// Set for a source that has delivered no record since it was opened, with the time of opening.
	Waiting string `json:"waiting,omitempty"`
	// Set for the stage that slows down the pipeline: the stages that wait for it, such as in waits for out.
	Slow string `json:"slow,omitempty"`
	// Set for a source of lines: on if its lines pass unchanged, without becoming records, or off and the reason.
	RawLane string    `json:"rawLane,omitempty"`
	Kind    StageKind `json:"kind,omitempty"`
	// Records per second that a source read, or that a processor or destination received.
	In float64 `json:"in"`
	// Records per second that were acknowledged to a source, passed on by a processor, or accepted by a destination.
	Out float64 `json:"out"`
	// Current activity: opening, reading, waiting for destinations, acknowledging, processing, writing, gathering a
	// batch, throttled or waiting for the cluster.
	Doing string `json:"doing,omitempty"`
	// Records that a source read and that are not yet settled, or that another stage received and has not yet
	// completed.
	Outstanding uint64 `json:"outstanding,omitempty"`
	// Time since which the stage has work and makes no progress.
	Since *time.Time `json:"since,omitempty"`
	// Number of errors that the stage reported since its last successful record.
	Errors int `json:"errors,omitempty"`
	// The last of these errors.
	Error string `json:"error,omitempty"`
}

// Windows of a Trend.
const (
	Last15Minutes = "15m"
	LastHour      = "1h"
	LastDay       = "24h"
)

// Trend has the measured values of a pipeline in a window of time, in equal steps, oldest first. A value is nil for a
// step in which the pipeline did not run or the agent measured nothing.
type Trend struct {
	// Id of the pipeline.
	ID string `json:"id"`
	// The window, which ends now: 15m, 1h or 24h.
	Last string `json:"last"`
	// Seconds of a step: 10, 60 or 600.
	Step int `json:"step"`
	// Beginning of the first step.
	From time.Time `json:"from"`
	// Read per second by all sources, for each step, oldest first. null: the pipeline did not run, or the agent did
	// not.
	Records []*float64 `json:"records"`
	// Read per second by all sources.
	Bytes []*float64 `json:"bytes"`
	// Number of records that went to the dead-letter queue in the step.
	Refused []*float64 `json:"refused"`
	// Mean time in seconds from reading a record until it is settled. null: no record was settled.
	Latency []*float64 `json:"latency"`
	// Highest age in seconds of the oldest unacknowledged record, since it was read; 0 when there was none.
	Lag []*float64 `json:"lag"`
	// Highest number of records that the sources were behind their systems. Left out if they do not report it.
	Behind []*float64 `json:"behind,omitempty"`
	// Records accepted per second by each destination, by its qualified id. At most 8 destinations have values.
	Destinations map[string][]*float64 `json:"destinations"`
}
