package main

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// refusing describes a destination that writes a file and refuses some of the records.
func refusing() sdk.Connector {
	return sdk.Connector{
		Name:           "refusing",
		Summary:        "Writes a file and refuses some of the records.",
		Version:        "v1.0.0",
		NewDestination: func() sdk.Destination { return &refusingFile{} },
	}
}

type refusingFile struct {
	file.Destination
	every int // one of every so many records is refused; 0: none
	since int // records since the last refused one
}

type refusingSettings struct {
	// One of so many records is refused. 0: none.
	Refuse int `json:"refuse" default:"0"`
}

// Parameters describes the settings.
func (d *refusingFile) Parameters() sdk.Parameters {
	return with(d.Destination.Parameters(), refusingSettings{})
}

// Configure checks and keeps the settings.
func (d *refusingFile) Configure(ctx context.Context, settings map[string]string) error {
	var own refusingSettings
	rest, err := split(settings, &own)
	if err != nil {
		return err
	}
	d.every = own.Refuse
	return d.Destination.Configure(ctx, rest)
}

var errRefused = errors.New("refused, as the settings ask for")

// Write writes the records up to the next refused one.
func (d *refusingFile) Write(ctx context.Context, records []record.Record) (int, error) {
	good := len(records)
	if d.every > 0 {
		good = min(good, d.every-1-d.since)
	}
	if n, err := d.Destination.Write(ctx, records[:good]); err != nil {
		return n, err
	}
	d.since += good
	if good == len(records) {
		return good, nil
	}
	d.since = 0
	return good, errRefused
}
