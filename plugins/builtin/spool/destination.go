package spool

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

type destinationSettings struct {
	// Directory of the spool, which is created if it does not exist. It must contain nothing else.
	Path string `json:"path" literal:"true" validate:"required"`
	// Approximate maximum size of the spool on disk in bytes. 0: no limit.
	Bytes int64 `json:"limit.bytes" default:"0" validate:"gt=-1"`
	// Maximum age of a record that not every source of the spool has acknowledged. 0: no limit.
	Age time.Duration `json:"limit.age" default:"0s"`
	// disk: every record is written to disk. hybrid: only records that the sources of the spool do not acknowledge in
	// time.
	Mode string `json:"mode" default:"disk" validate:"inclusion=disk|hybrid"`
	// Time that a record, and its own source, waits in memory for the sources of a hybrid spool.
	Delay time.Duration `json:"hybrid.delay" default:"1s"`
	// Action when a limit is reached: records wait, the oldest records are dropped, or new records are dropped.
	Full string `json:"full" default:"block" validate:"inclusion=block|drop-oldest|drop-newest"`
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
	writer   *spoollog.Writer
	written  *written         // commits to sync later
	defers   func(sdk.Syncer) // nil if the host does not defer syncs
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) error {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	if d.settings.Mode == "hybrid" && d.settings.Delay <= 0 {
		return sdk.SettingError{Setting: "hybrid.delay", Message: "must be positive"}
	}
	return sdk.CheckPath(ctx, "path", d.settings.Path)
}

// Open opens the spool and applies the limits and the mode.
func (d *Destination) Open(ctx context.Context) (err error) {
	if d.log, d.release, err = share(ctx, d.settings.Path); err != nil {
		return sdk.Unavailable(err)
	}
	d.log.SetMemory(sdk.NewBuffer(ctx))
	d.writer = d.log.Writer()
	s := d.settings
	d.log.SetLimits(spoollog.Limits{Bytes: s.Bytes, Age: s.Age, Full: fullOf[s.Full]})
	d.written, d.defers = &written{device: deviceOf(d.log.Dir())}, sdk.EnvFrom(ctx).Defer
	if s.Mode != "hybrid" {
		return sdk.Unavailable(d.log.SetHybrid(0))
	}
	d.written.device = ownDevice(d.log.Dir())
	return sdk.Unavailable(d.log.SetHybrid(s.Delay))
}

// Write appends the records. It schedules a sync by the host, or waits for the sync if the host does not defer syncs.
// It refuses only a record that cannot be encoded.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	frames, n, refused := spoollog.Encode(records)
	if n > 0 {
		if err := d.append(ctx, frames); err != nil {
			return 0, sdk.Unavailable(err)
		}
	}
	return n, refused
}

func (d *Destination) append(ctx context.Context, frames []spoollog.Frame) error {
	commit, err := d.writer.Append(ctx, frames)
	if err != nil || commit == nil {
		return err
	}
	if d.defers == nil {
		return commit.Wait(ctx)
	}
	if err := d.written.add(commit, d.defers); err != nil {
		return err
	}
	if d.log.Pending() >= maxPending || d.log.Short() {
		return d.log.Flush(ctx)
	}
	return nil
}

// Teardown releases the spool.
func (d *Destination) Teardown(context.Context) error {
	if d.release == nil {
		return nil
	}
	return d.release()
}
