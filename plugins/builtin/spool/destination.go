package spool

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

type destinationSettings struct {
	Path  string        `json:"path" validate:"required" desc:"Directory of the spool, which is created if it does not exist. Nothing else is to be in it."`
	Bytes int64         `json:"limit.bytes" default:"0" validate:"gt=-1" desc:"Most bytes that the spool takes on disk, about. 0: no limit."`
	Age   time.Duration `json:"limit.age" default:"0s" desc:"Greatest age of a record that not every source of the spool has acknowledged. 0: no limit."`
	Full  string        `json:"full" default:"block" validate:"inclusion=block|drop-oldest|drop-newest" desc:"What happens when a limit is reached: records wait, the oldest ones are dropped, or those that come."`
}

var fullOf = map[string]spoollog.Full{
	"block":       spoollog.Block,
	"drop-oldest": spoollog.DropOldest,
	"drop-newest": spoollog.DropNewest,
}

// Destination appends records to a spool.
type Destination struct {
	sdk.DestinationBase

	settings destinationSettings
	log      *spoollog.Log
	release  func() error
	written  *written // what is synced later; nil when nobody does
	defers   func(sdk.Syncer)
}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters { return sdk.ParametersOf(destinationSettings{}) }

// Configure checks and keeps the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) error {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	return sdk.CheckPath(ctx, "path", d.settings.Path)
}

// Open opens the spool.
func (d *Destination) Open(ctx context.Context) (err error) {
	if d.log, d.release, err = spoollog.Share(d.settings.Path, sdk.Logger(ctx)); err != nil {
		return sdk.Unavailable(err)
	}
	if d.defers = sdk.EnvFrom(ctx).Defer; d.defers != nil {
		d.written = &written{device: deviceOf(d.log.Dir())}
	}
	s := d.settings
	d.log.SetLimits(spoollog.Limits{Bytes: s.Bytes, Age: s.Age, Full: fullOf[s.Full]})
	return nil
}

// Write appends the records and syncs the log, or has the host do it. Only a record that
// cannot be encoded is refused.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	frames, n, refused := spoollog.Encode(records)
	if n > 0 {
		commit, err := d.log.Append(ctx, frames)
		switch {
		case err != nil || commit == nil:
		case d.written == nil:
			err = commit.Wait(ctx)
		default:
			err = d.written.add(commit, d.defers)
		}
		if err == nil && d.written != nil && d.log.Pending() >= mostPending {
			err = d.written.Sync()
		}
		if err != nil {
			return 0, sdk.Unavailable(err)
		}
	}
	return n, refused
}

// Teardown lets the spool go.
func (d *Destination) Teardown(context.Context) error {
	if d.release == nil {
		return nil
	}
	return d.release()
}
