package spec

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// PipelineRates are the rates of a pipeline, measured over the last seconds.
type PipelineRates struct {
	ID      string  `json:"id" doc:"Of the pipeline."`
	Records float64 `json:"records" doc:"Read per second, by all sources."`
	Bytes   float64 `json:"bytes" doc:"Read per second, by all sources."`
	// Delivered is the rate of the slowest destination.
	Delivered float64  `json:"delivered" doc:"Accepted per second by the destination that accepts least."`
	Lag       *float64 `json:"lag,omitempty" doc:"Seconds from settled to acknowledged, the mean of the last seconds; left out when nothing was acknowledged."`
	Oldest    *float64 `json:"oldest,omitempty" doc:"Seconds since the oldest record that is not acknowledged was read; left out when there is none."`
	Refused   uint64   `json:"refused" doc:"Records that went to the dead-letter queue since the agent started."`
	// Stages has the rates of connectors and processors by their qualified id.
	Stages map[string]StageRates `json:"stages,omitempty"`
	// Series has the records read per second during the last minutes, one value for each second, the newest last.
	Series []float64 `json:"series,omitempty" doc:"Records per second of the last minutes, one for each second, the newest last."`
}

// StageRates are the rates of a connector or a processor, measured over the last seconds.
type StageRates struct {
	Records     float64          `json:"records" doc:"Per second."`
	Bytes       float64          `json:"bytes" doc:"Per second."`
	Refused     float64          `json:"refused,omitempty" doc:"Per second."`
	Filtered    float64          `json:"filtered,omitempty" doc:"Per second, by a processor."`
	Busy        float64          `json:"busy" doc:"Share of the time that a source reads, waiting for records included, that a processor processes or a destination writes, from 0 to 1. Estimated from a sample of the calls."`
	Behind      *progress.Report `json:"behind,omitempty" doc:"How far a source is behind its system, as far as that is known."`
	Waiting     string           `json:"waiting,omitempty" doc:"Set for a source that has delivered nothing since it was opened: no record yet, and the time of opening."`
	Slow        string           `json:"slow,omitempty" doc:"The stages that wait for it, as in: in waits for out, if it is the stage that slows the pipeline down."`
	Kind        StageKind        `json:"kind,omitempty"`
	In          float64          `json:"in" doc:"Per second: read by a source, handed to a processor or a destination."`
	Out         float64          `json:"out" doc:"Per second: acknowledged to a source, passed on by a processor, accepted by a destination."`
	Doing       string           `json:"doing,omitempty" doc:"Current activity: opening, reading, waiting for destinations, acknowledging, processing, writing, gathering a batch, throttled or waiting for the cluster."`
	Outstanding uint64           `json:"outstanding,omitempty" doc:"Records that a source read and that are not settled, or that another stage received and has not answered."`
	Since       *time.Time       `json:"since,omitempty" doc:"Time since which it has had work and made no progress."`
	Errors      int              `json:"errors,omitempty" doc:"Errors that it reported since it last passed a record."`
	Error       string           `json:"error,omitempty" doc:"The last of these errors."`
}
