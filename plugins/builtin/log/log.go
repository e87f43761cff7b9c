// Package log provides a destination that writes records to the log of the agent.
package log

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const version = "v1.0.0"

// Connector returns the connector with its destination.
func Connector() sdk.Connector {
	return sdk.Connector{
		Name:           "log",
		Summary:        "Writes records to the log.",
		Description:    "A destination that writes a log entry for every record, for seeing what a pipeline does.",
		Version:        version,
		Author:         "conduit",
		NewDestination: func() sdk.Destination { return &Destination{} },
		// The readers of the log are people.
		DestinationDefaults: map[string]string{"sdk.record.format": "opencdc/text"},
	}
}

type settings struct {
	// Level of the log entries. Entries below the level of the agent's log are not written.
	Level string `json:"level" default:"info" validate:"inclusion=trace|debug|info|warn|error"`
	// Message of the log entries.
	Message string `json:"message" literal:"true"`
}

// levels maps names to levels. slog has no name for trace.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4,
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

// Destination writes a log entry with the attribute "record" for every record.
type Destination struct {
	sdk.DestinationBase

	level   slog.Level
	message string
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters { return sdk.Described(settings{}, descriptions) }

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	var c settings
	if err := sdk.Decode(values, &c); err != nil {
		return err
	}
	d.level, d.message = levels[c.Level], c.Message
	return nil
}

// Open does nothing: the log is always available.
func (d *Destination) Open(context.Context) error { return nil }

// Write logs the records. It does nothing if the log does not include the level.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	logger := sdk.Logger(ctx)
	if !logger.Enabled(ctx, d.level) {
		return len(records), nil
	}
	format := sdk.RecordFormat(ctx)
	for i := range records {
		// A log handler may keep the text, so every record has its own.
		text, err := format(nil, &records[i])
		if err != nil {
			return i, fmt.Errorf("cannot encode the record: %w", err)
		}
		logger.LogAttrs(ctx, d.level, d.message, slog.Any("record", encoded(text)))
	}
	return len(records), nil
}

// encoded is an encoded record. In a JSON log it is an object instead of a string, unless the record format is not
// JSON. In other logs it is its text.
type encoded []byte

// String returns the text.
func (e encoded) String() string { return string(e) }

// MarshalText returns the text.
func (e encoded) MarshalText() ([]byte, error) { return e, nil }

// MarshalJSON returns the text, as a string if it is not JSON.
func (e encoded) MarshalJSON() ([]byte, error) {
	if json.Valid(e) {
		return e, nil
	}
	return json.Marshal(string(e))
}
