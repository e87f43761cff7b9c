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

// DeadLetterQueue is the dead-letter queue of a pipeline.
type DeadLetterQueue struct {
	Plugin              string            `json:"plugin"`
	Settings            map[string]string `json:"settings"`
	WindowSize          Count             `json:"windowSize"`
	WindowNackThreshold Count             `json:"windowNackThreshold"`
	// Dead letters also keep the record as it was read, for replays from the first processor.
	KeepOriginal bool `json:"keepOriginal,omitempty"`
}
