package spec

import "time"

// LogLine is a log line about a pipeline.
type LogLine struct {
	ID      int64             `json:"id" doc:"Ascending number, from the start of the agent."`
	At      time.Time         `json:"at"`
	Level   string            `json:"level" doc:"debug, info, warn or error."`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty" doc:"Attributes of the line, such as connector_id and err."`
	Dropped int               `json:"dropped,omitempty" doc:"Number of lines immediately before this one that exceeded the limit and were dropped."`
}
