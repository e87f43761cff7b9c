package spec

import (
	"encoding/json"
	"time"
)

// DryRunRequest has records to run through the processors of a pipeline, without its connectors.
type DryRunRequest struct {
	File     string            `json:"file" doc:"Content of a pipeline file."`
	Pipeline string            `json:"pipeline,omitempty" doc:"Id of the pipeline, if the file declares several."`
	Source   string            `json:"source,omitempty" doc:"Id of the source of the records, if the pipeline has several."`
	Records  []json.RawMessage `json:"records" doc:"Records in the form of a dead letter. Only the payload is required. Raw data is text, or base64 with the prefix \"base64:\"."`
	Base64   bool              `json:"base64,omitempty" doc:"Positions and raw data of the records are base64, as in a file in the format opencdc/json."`
	Start    *time.Time        `json:"start,omitempty" doc:"Time at the start. Default: now."`
	Advance  string            `json:"advance,omitempty" doc:"Time that passes after the last record, such as 1m, so that windows end."`
}

// DryRun is the output of the processors for the records.
type DryRun struct {
	Records      []DryRunRecord               `json:"records" doc:"Steps of each record."`
	Destinations map[string][]json.RawMessage `json:"destinations" doc:"Records that each destination would get."`
	DeadLetters  []DryRunDeadLetter           `json:"deadLetters" doc:"Records that would go to the dead-letter queue."`
}

// DryRunRecord is the history of a record after it was read.
type DryRunRecord struct {
	Number int          `json:"number" doc:"Number of the record, from 1; 0 for output that the passing of time causes after the last record."`
	Steps  []DryRunStep `json:"steps"`
}

// DryRunStep is the output of a processor for its input.
type DryRunStep struct {
	Processor string            `json:"processor" doc:"Qualified id."`
	Diff      []string          `json:"diff" doc:"Changed fields: - before, + after."`
	Records   []json.RawMessage `json:"records" doc:"Output of the processor."`
}

// DryRunDeadLetter is a record that a processor refused.
type DryRunDeadLetter struct {
	Record    json.RawMessage `json:"record"`
	Processor string          `json:"processor" doc:"Qualified id."`
	Error     string          `json:"error"`
}
