package spec

import "time"

// LogLine is a log line about a pipeline.
type LogLine struct {
	ID      int64             `json:"id" doc:"Grows from line to line until the agent ends."`
	At      time.Time         `json:"at"`
	Level   string            `json:"level" doc:"debug, info, warn or error."`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty" doc:"What the line is about, such as connector_id and err."`
	Dropped int               `json:"dropped,omitempty" doc:"Lines just before this one that were too many to be kept."`
}
