package spec

import (
	"encoding/json"
	"time"
)

// DryRunRequest has records to run through the processors of a pipeline, without its connectors.
type DryRunRequest struct {
	File     string            `json:"file" doc:"Content of a pipeline file."`
	Pipeline string            `json:"pipeline,omitempty" doc:"Id of the pipeline, when the file declares several."`
	Source   string            `json:"source,omitempty" doc:"Id of the source that reads the records, when the pipeline has several."`
	Records  []json.RawMessage `json:"records" doc:"Records in the form of a dead letter; all but the payload may be left out. Raw data is text, or base64 behind \"base64:\"."`
	Base64   bool              `json:"base64,omitempty" doc:"Positions and raw data of the records are in base64, as in a file in the format opencdc/json."`
	Start    *time.Time        `json:"start,omitempty" doc:"Time at the beginning; now when left out."`
	Advance  string            `json:"advance,omitempty" doc:"Time that passes after the last record, for windows to end, such as 1m."`
}

// DryRun is the output of the processors for the records.
type DryRun struct {
	Records      []DryRunRecord               `json:"records" doc:"What happened after each record was read."`
	Destinations map[string][]json.RawMessage `json:"destinations" doc:"What each destination would get."`
	DeadLetters  []DryRunDeadLetter           `json:"deadLetters" doc:"What would go to the dead-letter queue."`
}

// DryRunRecord is the history of a record after it was read.
type DryRunRecord struct {
	Number int          `json:"number" doc:"From 1; 0 is for what happened by time after the last one."`
	Steps  []DryRunStep `json:"steps"`
}

// DryRunStep is the output of a processor for its input.
type DryRunStep struct {
	Processor string            `json:"processor" doc:"Qualified id."`
	Diff      []string          `json:"diff" doc:"The fields that changed: - before, + after."`
	Records   []json.RawMessage `json:"records" doc:"What goes on behind it."`
}

// DryRunDeadLetter is a record that a processor refused.
type DryRunDeadLetter struct {
	Record    json.RawMessage `json:"record"`
	Processor string          `json:"processor" doc:"Qualified id."`
	Error     string          `json:"error"`
}
