package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// source returns a record at every tick. The position of a record is its number, so that a restart resumes counting
// after the last position.
type source struct {
	sdk.SourceBase
	settings struct {
		Interval time.Duration `json:"interval" default:"1s" validate:"gt=0" desc:"Time between two records."`
		Text     string        `json:"text" validate:"required" desc:"The text of every record."`
	}
	number int64
	ticker *time.Ticker
}

func (s *source) Parameters() sdk.Parameters { return sdk.ParametersOf(s.settings) }

func (s *source) Configure(_ context.Context, settings map[string]string) error {
	return sdk.Decode(settings, &s.settings)
}

// Open resumes after the record at pos. Connect to other systems here.
func (s *source) Open(_ context.Context, pos record.Position) (err error) {
	if len(pos) > 0 {
		if s.number, err = strconv.ParseInt(string(pos), 10, 64); err != nil {
			return sdk.Permanent(fmt.Errorf("cannot resume at position %q: %w", pos, err))
		}
	}
	s.ticker = time.NewTicker(s.settings.Interval)
	return nil
}

// Read waits for the next records, here a single one.
func (s *source) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case <-s.ticker.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.number++
	number := strconv.FormatInt(s.number, 10)
	return []record.Record{{
		Position:  record.Position(number),
		Operation: record.OperationCreate,
		Key:       record.Raw([]byte(number)),
		After:     record.Raw([]byte(s.settings.Text)),
	}}, nil
}

// Teardown is the last call, even after a failed Open.
func (s *source) Teardown(context.Context) error {
	if s.ticker != nil {
		s.ticker.Stop()
	}
	return nil
}
