package plugins

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// source adapts an sdk.Source to connector.Source. Read and Ack run on the goroutine that calls them.
type source struct {
	instance
	connector sdk.Source
	stopped   atomic.Bool
	pending   error // error returned with records; owned by Read
}

// Open implements connector.Source.
func (s *source) Open(ctx context.Context, pos record.Position) error {
	return s.call(ctx, s.timeouts.Open, func(ctx context.Context) error {
		return s.connector.Open(ctx, pos)
	})
}

// Stop ends the running Read of the connector. No other Read follows.
func (s *source) Stop(context.Context) error {
	s.stopped.Store(true)
	s.main.end()
	return nil
}

// Read implements connector.Source.
func (s *source) Read(ctx context.Context) (*record.Batch, error) {
	if err := s.enter(&s.main); err != nil {
		return nil, err
	}
	defer s.main.release()
	for {
		if err := s.readable(); err != nil {
			return nil, s.readFailed(ctx, err)
		}
		records, err := s.read(s.main.context(ctx, s.env))
		if len(records) > 0 {
			s.pending = err
			return s.batch(records)
		}
		if err != nil {
			return nil, s.readFailed(ctx, err)
		}
	}
}

// NoLines implements connector.LineSource.
func (s *source) NoLines() string { return sdk.NoLines(s.connector) }

// ReadLines implements connector.LineSource.
func (s *source) ReadLines(ctx context.Context) (*record.Batch, error) {
	if err := s.enter(&s.main); err != nil {
		return nil, err
	}
	defer s.main.release()
	if err := s.readable(); err != nil {
		return nil, s.readFailed(ctx, err)
	}
	lines, records, err := s.readLines(s.main.context(ctx, s.env))
	switch {
	case lines != nil && lines.Len() > 0:
		s.pending = err
		return s.batchOfLines(lines)
	case len(records) > 0:
		s.pending = err
		return s.batch(records)
	case err == nil:
		err = s.fault("read neither lines nor records")
	}
	return nil, s.readFailed(ctx, err)
}

func (s *source) readLines(ctx context.Context) (lines record.Lines, records []record.Record, err error) {
	defer sdk.Recover(&err)
	return s.connector.(sdk.LineSource).ReadLines(ctx)
}

// batchOfLines checks the position of the last line and puts the lines into a batch.
func (s *source) batchOfLines(lines record.Lines) (*record.Batch, error) {
	if n := len(lines.Position(lines.Len() - 1)); n == 0 || n > record.MaxPosition {
		return nil, s.fail(s.fault("the position of the last of %d lines has %d bytes; it must have 1 to %d",
			lines.Len(), n, record.MaxPosition))
	}
	return record.NewLines(lines, record.Field{Key: record.KeySourceConnectorID, Value: s.id},
		record.Field{Key: record.KeyReadAt, Value: strconv.FormatInt(time.Now().UnixNano(), 10)}), nil
}

// readable returns the reason why the connector must not be read, nil if it may.
func (s *source) readable() error {
	if s.pending != nil {
		return s.pending
	}
	if s.stopped.Load() {
		return io.EOF
	}
	return nil
}

func (s *source) read(ctx context.Context) (records []record.Record, err error) {
	defer sdk.Recover(&err)
	return s.connector.Read(ctx)
}

// readFailed converts err to the error of Read. The end of ctx and the end after Stop are recognized by their error
// values, so an error of the connector must not equal them.
func (s *source) readFailed(ctx context.Context, err error) error {
	switch ended := isContext(err) || errors.Is(err, io.EOF); {
	case !ended:
		return s.contained(err)
	case s.stopped.Load():
		return io.EOF
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.usable() != nil: // ended by Teardown
		return s.usable()
	}
	return s.fault("reading ended by itself: %v", err)
}

// batch checks the records' positions and puts them into a batch.
func (s *source) batch(records []record.Record) (*record.Batch, error) {
	for i := range records {
		switch n := len(records[i].Position); {
		case n == 0:
			return nil, s.fail(s.fault("record %d of %d has no position", i+1, len(records)))
		case n > record.MaxPosition:
			return nil, s.fail(s.fault("the position of record %d of %d has %d bytes, more than %d",
				i+1, len(records), n, record.MaxPosition))
		}
	}
	stamp(records, s.id)
	return record.NewBatch(records), nil
}

// Progress returns the connector's report. It returns the zero Report if the connector reports none or must not be
// called.
func (s *source) Progress() (report progress.Report) {
	r, ok := s.connector.(sdk.Reporter)
	if !ok || s.usable() != nil {
		return progress.Report{}
	}
	if err := sdk.Contain(func() error { report = r.Progress(); return nil }); err != nil {
		_ = s.contained(err) // breaks the connector
	}
	report.Warning = texts.TruncateError(report.Warning)
	return report
}

// IgnoresAcks implements sdk.AckIgnorer.
func (s *source) IgnoresAcks() bool {
	i, ok := s.connector.(sdk.AckIgnorer)
	return ok && i.IgnoresAcks()
}

// MaxUnacked implements sdk.LimitedSource.
func (s *source) MaxUnacked() int {
	l, ok := s.connector.(sdk.LimitedSource)
	if !ok {
		return 0
	}
	return l.MaxUnacked()
}

// Finish implements sdk.FinishingSource.
func (s *source) Finish() {
	if f, ok := s.connector.(sdk.FinishingSource); ok && s.usable() == nil {
		if err := sdk.Contain(func() error { f.Finish(); return nil }); err != nil {
			_ = s.contained(err) // breaks the connector
		}
	}
}

// Ack implements connector.Source.
func (s *source) Ack(ctx context.Context, positions []record.Position) error {
	if len(positions) == 0 {
		return nil
	}
	if err := s.enter(&s.acks); err != nil {
		return err
	}
	defer s.acks.release()
	return s.contained(s.ack(s.acks.context(ctx, s.env), positions))
}

func (s *source) ack(ctx context.Context, positions []record.Position) (err error) {
	defer sdk.Recover(&err)
	return s.connector.Ack(ctx, positions)
}
