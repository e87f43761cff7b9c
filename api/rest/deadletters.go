package rest

import "encoding/json"

// DeadLetterEdit replaces the record of a dead letter.
type DeadLetterEdit struct {
	// The whole record, in the form that GET returns.
	Record json.RawMessage `json:"record"`
}

// DeadLettersDropped is the number of dropped dead letters.
type DeadLettersDropped struct {
	Dropped int64 `json:"dropped"`
}
