package engine

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// On the raw lane the records of a source pass as blocks of text, without becoming records. The lane ends where
// something looks at records, and begins again with the next read after that.

// lines returns the source as a source of lines, nil if it returns no lines.
func lines(s connector.Source) connector.LineSource {
	ls, ok := s.(connector.LineSource)
	if ok && ls.NoLines() == "" && connector.IgnoresAcks(s) {
		return ls
	}
	return nil
}

// noLane returns why the records of the source do not pass as lines, "" if they do.
func (s *sourceRun) noLane() string {
	switch {
	case s.lines == nil:
		if reason := connector.NoLines(s.src); reason != "" {
			return "source " + s.id + ": " + reason
		}
		return "source " + s.id + " waits for acknowledgements of records"
	case s.stage.Active() || s.run.stage.Active():
		return "processors or conditions look at the records"
	case s.tap.observed():
		return "an inspector looks at the records of " + s.id
	}
	reason := ""
	for _, d := range s.run.dests {
		why := d.noLane()
		if why == "" {
			return "" // the other destinations get records
		}
		if reason == "" {
			reason = why
		}
	}
	return reason
}

// noLane returns why the destination needs records, "" if it takes lines.
func (d *destinationRun) noLane() string {
	switch {
	case d.stage.Active():
		return "processors look at the records for " + d.id
	case d.tap.observed() || d.before.observed():
		return "an inspector looks at the records for " + d.id
	}
	if why := connector.NoLines(d.out.Load().connector); why != "" {
		return "destination " + d.id + ": " + why
	}
	return ""
}

// rawLane returns the state of the raw lane for users, "" if the connector of the source has no lines.
func (s *sourceRun) rawLane() string {
	if connector.NoLines(s.src) == sdk.WithoutLines {
		return ""
	}
	return sdk.RawLane(s.noLane())
}

// readBatch reads the next batch, of lines if nothing needs records.
func (s *sourceRun) readBatch(ctx context.Context) (*record.Batch, error) {
	if s.lines == nil || s.noLane() != "" {
		return s.src.Read(ctx)
	}
	b, err := s.lines.ReadLines(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := b.Lines(); ok {
		for _, d := range s.run.dests {
			if d.noLane() != "" {
				_, err := b.Records() // counts its memory
				return b, err
			}
		}
	}
	return b, nil
}
