package spec

import "time"

// LogLine is a log line about a pipeline.
type LogLine struct {
	// Ascending number, from the start of the agent.
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// debug, info, warn or error.
	Level   string `json:"level"`
	Message string `json:"message"`
	// Attributes of the line, such as connector_id and err.
	Fields map[string]string `json:"fields,omitempty"`
	// Number of lines immediately before this one that exceeded the limit and were dropped.
	Dropped int `json:"dropped,omitempty"`
}
