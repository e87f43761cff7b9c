package spec

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// PipelineRates are the rates of a pipeline, measured over the last seconds.
type PipelineRates struct {
	ID      string  `json:"id" doc:"Id of the pipeline."`
	Records float64 `json:"records" doc:"Read per second, by all sources."`
	Bytes   float64 `json:"bytes" doc:"Read per second, by all sources."`
	// Delivered is the rate of the slowest destination.
	Delivered float64  `json:"delivered" doc:"Accepted per second by the destination that accepts least."`
	Lag       *float64 `json:"lag,omitempty" doc:"Mean time in seconds from the settling of a record to its acknowledgment, over the last seconds. Left out when no record was acknowledged."`
	Oldest    *float64 `json:"oldest,omitempty" doc:"Age in seconds of the oldest unacknowledged record, since it was read. Left out when there is none."`
	Refused   uint64   `json:"refused" doc:"Number of records that went to the dead-letter queue since the start of the agent."`
	// Stages has the rates of connectors and processors by their qualified id.
	Stages map[string]StageRates `json:"stages,omitempty"`
	// Series has the records read per second during the last minutes, one value for each second, the newest last.
	Series []float64 `json:"series,omitempty" doc:"Records per second in the last minutes, one value for each second, the newest last."`
}

// StageRates are the rates of a connector or a processor, measured over the last seconds.
type StageRates struct {
	Records     float64          `json:"records" doc:"Per second."`
	Bytes       float64          `json:"bytes" doc:"Per second."`
	Refused     float64          `json:"refused,omitempty" doc:"Per second."`
	Filtered    float64          `json:"filtered,omitempty" doc:"Per second, by a processor."`
	Busy        float64          `json:"busy" doc:"Share of time, from 0 to 1, in which a source reads or waits for records, a processor processes, or a destination writes. Estimated from a sample of the calls."`
	Behind      *progress.Report `json:"behind,omitempty" doc:"Lag of a source behind its system, if it is known."`
	Waiting     string           `json:"waiting,omitempty" doc:"Set for a source that has delivered no record since it was opened, with the time of opening."`
	Slow        string           `json:"slow,omitempty" doc:"Set for the stage that slows down the pipeline: the stages that wait for it, such as in waits for out."`
	RawLane     string           `json:"rawLane,omitempty" doc:"Of a source of lines: on if its lines pass as they are, without becoming records, or off and the reason."`
	Kind        StageKind        `json:"kind,omitempty"`
	In          float64          `json:"in" doc:"Records per second that a source read, or that a processor or destination received."`
	Out         float64          `json:"out" doc:"Records per second that were acknowledged to a source, passed on by a processor, or accepted by a destination."`
	Doing       string           `json:"doing,omitempty" doc:"Current activity: opening, reading, waiting for destinations, acknowledging, processing, writing, gathering a batch, throttled or waiting for the cluster."`
	Outstanding uint64           `json:"outstanding,omitempty" doc:"Records that a source read and that are not yet settled, or that another stage received and has not yet completed."`
	Since       *time.Time       `json:"since,omitempty" doc:"Time since which the stage has work and makes no progress."`
	Errors      int              `json:"errors,omitempty" doc:"Number of errors that the stage reported since its last successful record."`
	Error       string           `json:"error,omitempty" doc:"The last of these errors."`
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
	ID      string     `json:"id" doc:"Id of the pipeline."`
	Last    string     `json:"last" doc:"The window, which ends now: 15m, 1h or 24h."`
	Step    int        `json:"step" doc:"Seconds of a step: 10, 60 or 600."`
	From    time.Time  `json:"from" doc:"Beginning of the first step."`
	Records []*float64 `json:"records" doc:"Read per second by all sources, for each step, oldest first. null: the pipeline did not run, or the agent did not."`
	Bytes   []*float64 `json:"bytes" doc:"Read per second by all sources."`
	Refused []*float64 `json:"refused" doc:"Number of records that went to the dead-letter queue in the step."`
	Latency []*float64 `json:"latency" doc:"Mean time in seconds from reading a record until it is settled. null: no record was settled."`
	Lag     []*float64 `json:"lag" doc:"Highest age in seconds of the oldest unacknowledged record, since it was read; 0 when there was none."`
	Behind  []*float64 `json:"behind,omitempty" doc:"Highest number of records that the sources were behind their systems. Left out if they do not report it."`
	// Destinations has the rates of destinations by their qualified id.
	Destinations map[string][]*float64 `json:"destinations" doc:"Records accepted per second by each destination, by its qualified id. At most 8 destinations have values."`
}
