package main

import (
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// timed describes a generator that measures the time until its records are acknowledged.
func timed() sdk.Connector {
	return sdk.Connector{
		Name:      "timed",
		Summary:   "Makes up records and measures how long they take to be acknowledged.",
		Version:   "v1.0.0",
		NewSource: func() sdk.Source { return &timedGenerator{} },
	}
}

type timedGenerator struct {
	generator.Source
	path string

	mu   sync.Mutex
	made []time.Time     // guarded by mu: creation times of unacknowledged records, in order
	took []time.Duration // guarded by mu: of the acknowledged records
}

type timedSettings struct {
	// File for the nanoseconds that each record took, one a line, written at the end.
	Acks string `json:"acks" validate:"required"`
}

// Parameters describes the settings.
func (s *timedGenerator) Parameters() sdk.Parameters {
	return with(s.Source.Parameters(), timedSettings{})
}

// Configure checks and keeps the settings.
func (s *timedGenerator) Configure(ctx context.Context, settings map[string]string) error {
	var own timedSettings
	rest, err := split(settings, &own)
	if err != nil {
		return err
	}
	s.path = own.Acks
	return s.Source.Configure(ctx, rest)
}

// Read returns the records that are due.
func (s *timedGenerator) Read(ctx context.Context) ([]record.Record, error) {
	records, err := s.Source.Read(ctx)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for range records {
		s.made = append(s.made, now)
	}
	return records, err
}

// Ack measures the time.
func (s *timedGenerator) Ack(_ context.Context, positions []record.Position) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.made[:len(positions)] {
		s.took = append(s.took, now.Sub(made))
	}
	s.made = s.made[len(positions):]
	return nil
}

// Teardown writes the measured times.
func (s *timedGenerator) Teardown(ctx context.Context) error {
	if s.path == "" {
		return nil
	}
	var text []byte
	for _, d := range s.took {
		text = append(strconv.AppendInt(text, int64(d), 10), '\n')
	}
	if err := os.WriteFile(s.path, text, 0o644); err != nil {
		return err
	}
	return s.Source.Teardown(ctx)
}
