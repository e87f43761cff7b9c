package spec

import (
	"encoding/json"
	"time"
)

// DryRunRequest has records to run through the processors of a pipeline, without its connectors.
type DryRunRequest struct {
	// Content of a pipeline file.
	File string `json:"file"`
	// Id of the pipeline, if the file declares several.
	Pipeline string `json:"pipeline,omitempty"`
	// Id of the source of the records, if the pipeline has several.
	Source string `json:"source,omitempty"`
	// Records in the form of a dead letter. Only the payload is required. Raw data is text, or base64 with the prefix
	// "base64:".
	Records []json.RawMessage `json:"records"`
	// Positions and raw data of the records are base64, as in a file in the format opencdc/json.
	Base64 bool `json:"base64,omitempty"`
	// Time at the start. Default: now.
	Start *time.Time `json:"start,omitempty"`
	// Time that passes after the last record, such as 1m, so that windows end.
	Advance string `json:"advance,omitempty"`
}

// DryRun is the output of the processors for the records.
type DryRun struct {
	// Steps of each record.
	Records []DryRunRecord `json:"records"`
	// Records that each destination would get.
	Destinations map[string][]json.RawMessage `json:"destinations"`
	// Ids of the isolated destinations: they get records through a separate log, possibly later than the others.
	Isolated []string `json:"isolated,omitempty"`
	// Records that would go to the dead-letter queue.
	DeadLetters []DryRunDeadLetter `json:"deadLetters"`
}

// DryRunRecord is the history of a record after it was read.
type DryRunRecord struct {
	// Number of the record, from 1; 0 for output that the passing of time causes after the last record.
	Number int          `json:"number"`
	Steps  []DryRunStep `json:"steps"`
}

// DryRunStep is the output of a processor for its input.
type DryRunStep struct {
	// Qualified id.
	Processor string `json:"processor"`
	// Changed fields: - before, + after.
	Diff []string `json:"diff"`
	// Output of the processor.
	Records []json.RawMessage `json:"records"`
}

// DryRunDeadLetter is a record that a processor refused.
type DryRunDeadLetter struct {
	Record json.RawMessage `json:"record"`
	// Qualified id.
	Processor string `json:"processor"`
	Error     string `json:"error"`
}
