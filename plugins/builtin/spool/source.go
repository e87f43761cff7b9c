package spool

import (
	"context"
	"math"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

const positionBytes = 34 // of a position at most

type sourceSettings struct {
	Path string `json:"path" validate:"required" desc:"Directory of the spool, which is created if it does not exist."`
}

// Source reads a spool. It reads under the id of its connector: what it has not acknowledged
// is kept for it, also while it is stopped, until the connector is deleted.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *spoollog.Log
	release  func() error
	reader   *spoollog.Reader
	cursor   *spoollog.Cursor
}

// Parameters describes the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.ParametersOf(sourceSettings{}) }

// Configure checks and keeps the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	s.settings = sourceSettings{}
	if err := sdk.Decode(values, &s.settings); err != nil {
		return err
	}
	return sdk.CheckPath(ctx, "path", s.settings.Path)
}

// LifecycleOnDeleted forgets the reader: nothing is kept for it any more.
func (s *Source) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	log, release, err := spoollog.Share(settings["path"], sdk.Logger(ctx))
	if err != nil {
		return err
	}
	defer release()
	return log.RemoveReader(readerName(ctx))
}

// LifecycleOnUpdated forgets the reader of the spool that was read before.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	if before["path"] == after["path"] {
		return nil
	}
	return s.LifecycleOnDeleted(ctx, before)
}

func readerName(ctx context.Context) string { return sdk.EnvFrom(ctx).ConnectorID }

// Open opens the spool. A position of another log, as there is one in the directory after it
// was emptied, is that of the oldest record.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	var p place
	if len(pos) > 0 {
		if p, err = parsePosition(pos); err != nil {
			return err
		}
	}
	if s.log, s.release, err = spoollog.Share(s.settings.Path, sdk.Logger(ctx)); err != nil {
		return sdk.Unavailable(err)
	}
	if s.reader, err = s.log.Reader(readerName(ctx)); err != nil {
		return sdk.Unavailable(err)
	}
	if p.id != s.log.ID() {
		if len(pos) > 0 {
			sdk.Logger(ctx).Warn("the spool is not the one that was read: reading begins with its oldest record", "path", s.settings.Path)
		}
		p.next = 0
	}
	s.cursor = s.log.Cursor(p.next)
	return nil
}

// Read returns the next records, waiting for them.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	for {
		records, offsets, err := s.cursor.Read(math.MaxUint64)
		switch {
		case len(records) > 0:
			s.position(records, offsets)
			return records, nil // an error comes again
		case err != nil:
			return nil, sdk.Unavailable(err)
		}
		if err := s.cursor.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// position gives the records their positions, which are cut from one array.
func (s *Source) position(records []record.Record, offsets []uint64) {
	text := make([]byte, 0, len(records)*positionBytes)
	p := place{id: s.log.ID()}
	for i := range records {
		start := len(text)
		p.next = offsets[i] + 1
		text = p.append(text)
		records[i].Position = text[start:len(text):len(text)]
	}
}

// Ack acknowledges the records: what every source of the spool acknowledged is removed.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	p, err := parsePosition(positions[len(positions)-1])
	if err != nil {
		return err
	}
	return s.reader.Acknowledge(p.next)
}

// Teardown lets the spool go.
func (s *Source) Teardown(context.Context) error {
	if s.cursor != nil {
		s.cursor.Close()
	}
	if s.release == nil {
		return nil
	}
	return s.release()
}
