package sdk

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
)

// LineSource is a Source of lines that can return them as one text. The host uses it, in its own process, where nothing
// looks at the records.
type LineSource interface {
	Source
	// NoLines returns why ReadLines must not be called with these settings, "" if it may. It is called after Configure.
	NoLines() string
	// ReadLines is like Read, but it returns either records or lines. Calls of Read and of ReadLines may alternate. The
	// source ignores acknowledgements (AckIgnorer).
	ReadLines(ctx context.Context) (record.Lines, []record.Record, error)
}

// LineDestination is a Destination that can write the payloads of lines without a look at the records.
type LineDestination interface {
	Destination
	// NoLines returns why WriteLines must not be called with these settings, "" if it may. It is called after Configure.
	NoLines() string
	// WriteLines is like Write for the records of lines, in a format that consists of the payload. It keeps no part of
	// the lines.
	WriteLines(ctx context.Context, lines record.Lines) (n int, err error)
}

// WithoutLines is the result of NoLines for a connector that has no lines with any settings.
const WithoutLines = "its connector has no lines"

// NoLines returns why the records of a source, or the records for a destination, cannot be lines; "" if they can.
func NoLines(connector any) string {
	if c, ok := connector.(interface{ NoLines() string }); ok {
		return c.NoLines()
	}
	return WithoutLines
}

// RawLane describes the raw lane to users. why is the reason why no lines pass, "" if they do.
func RawLane(why string) string {
	if why == "" {
		return "on"
	}
	return "off: " + why
}

// NoLines implements LineSource.
func (s *standardSource) NoLines() string {
	switch _, ok := s.Source.(LineSource); {
	case !ok:
		return WithoutLines
	case s.options.BatchSize > 0 || s.options.BatchDelay > 0:
		return "sdk.batch.size or sdk.batch.delay gathers records"
	}
	return NoLines(s.Source)
}

// ReadLines implements LineSource. Lines are raw, so they get no schema.
func (s *standardSource) ReadLines(ctx context.Context) (record.Lines, []record.Record, error) {
	lines, records, err := s.Source.(LineSource).ReadLines(ctx)
	if lines == nil && err == nil && s.extract != nil {
		err = s.extract.attach(ctx, records)
	}
	return lines, records, err
}

// NoLines implements LineDestination.
func (d *standardDestination) NoLines() string {
	switch _, ok := d.Destination.(LineDestination); {
	case !ok:
		return WithoutLines
	case !d.format.payload:
		return "sdk.record.format is not a template of the payload alone"
	case d.options.BatchSize > 0 || d.options.BatchDelay > 0:
		return "sdk.batch.size or sdk.batch.delay gathers records"
	case d.limiter != nil:
		return "sdk.rate.perSecond limits the rate"
	}
	return NoLines(d.Destination)
}

// WriteLinesAsync is WriteAsync for a batch of lines. The record that the connector refuses, and those after it, are
// written as records.
func (d *standardDestination) WriteLinesAsync(
	ctx context.Context, b *record.Batch, settled func(n int, err error),
) error {
	lines, _ := b.Lines()
	total := lines.Len()
	n, err := d.writeLines(d.context(ctx), lines)
	switch {
	case n < 0, n > total, (n == total) != (err == nil):
		return fmt.Errorf("cannot write: the connector reported %d of %d lines as written, with error %s", n, total,
			fmt.Sprint(err))
	case err == nil:
		settled(n, nil)
		return nil
	case ctx.Err() != nil || breaks(err):
		if n > 0 {
			settled(n, nil)
		}
		return err
	}
	records, err := b.Records()
	if err != nil {
		return err
	}
	if n > 0 {
		settled(n, nil)
	}
	return d.WriteAsync(ctx, records[n:len(records):len(records)], settled)
}

// writeLines writes the lines, and returns a panic as an error.
func (d *standardDestination) writeLines(ctx context.Context, lines record.Lines) (n int, err error) {
	defer Recover(&err)
	return d.Destination.(LineDestination).WriteLines(ctx, lines)
}
