// Package sdk is what the author of a connector implements: a Source that reads
// records from somewhere, a Destination that writes them somewhere, or both.
//
// There is no transport in it. The same Connector value runs inside the agent and,
// served by package wire, as an executable of its own.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Connector describes a connector and makes its instances.
type Connector struct {
	Name        string // how pipelines refer to it: letters, digits, '-', '_' and '.'
	Summary     string // one line
	Description string
	Version     string // semantic version with a leading v
	Author      string

	NewSource      func() Source      // nil when the connector is no source
	NewDestination func() Destination // nil when the connector is no destination

	// Defaults of sdk.* parameters that differ from the usual ones, by name.
	SourceDefaults, DestinationDefaults map[string]string

	standard bool // made by Standard
}

// NoSchemas returns SourceDefaults of a source from whose records no schema is extracted.
func NoSchemas() map[string]string {
	return map[string]string{
		"sdk.schema.extract.key.enabled":     "false",
		"sdk.schema.extract.payload.enabled": "false",
	}
}

// Source reads records. The methods are called one at a time and in the order
// Configure, Lifecycle…, Open, then Read again and again, and Teardown last, with one
// exception: Ack is called while Read may be waiting, though never concurrently with
// itself. For its specification only Parameters is called.
//
// Embed SourceBase to need only the methods that matter.
type Source interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a connector.
	Parameters() Parameters
	// Configure checks and keeps the settings. It touches nothing outside the process.
	// Settings have been trimmed and defaulted, and checked against Parameters.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for reading right after the record at pos, or from the beginning
	// when pos is empty. ctx ends when Open returns, not before.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next records, at least one, waiting for them as long as it
	// must: it returns what is there and never waits to fill a batch. Every record has
	// a position that is unique within the source. When ctx ends, Read returns soon,
	// with ctx.Err() or with records. The records belong to the caller.
	Read(ctx context.Context) ([]record.Record, error)
	// Ack reports that the records at these positions are settled: every
	// destination has them, and a restart resumes behind the last of them. Positions
	// come in the order read, each once.
	Ack(ctx context.Context, positions []record.Position) error
	// Teardown releases everything. It is the last call, also after a failed Configure or Open.
	Teardown(ctx context.Context) error

	Lifecycle
}

// Reporter is a Source that knows how far behind its system it is. Only the sources of
// this process are asked: the connector protocol has no such question.
type Reporter interface {
	// Progress returns what the source knows already: it waits for nothing. It is called
	// between Open and Teardown, concurrently with every other method.
	Progress() progress.Report
}

// Destination writes records. The methods are called one at a time, in the order
// Configure, Lifecycle…, Open, Write again and again, Teardown.
//
// Embed DestinationBase to need only the methods that matter.
type Destination interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a connector.
	Parameters() Parameters
	// Configure checks and keeps the settings. It touches nothing outside the process.
	// Settings have been trimmed and defaulted, and checked against Parameters.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for writing.
	Open(ctx context.Context) error
	// Write writes the records in order. When it returns, the first n are durable
	// downstream; n < len(records) only with an error, which says what is wrong with
	// record n: that one is refused. The records behind it were not tried. With an error
	// made by Unavailable none is refused; the destination is broken then. The records are
	// lent until they are settled: others see them too, so Write must not change them.
	Write(ctx context.Context, records []record.Record) (n int, err error)
	// Teardown releases everything. It is the last call.
	Teardown(ctx context.Context) error

	Lifecycle
}

// Lifecycle is called when a connector comes, changes and goes, so that it can set up
// resources once and clean them up at the end, whatever happens in between.
type Lifecycle interface {
	// LifecycleOnCreated is called before the first Open ever. Its error keeps the
	// connector from starting, and it is called again at the next start.
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	// LifecycleOnUpdated is called before the first Open with settings that differ
	// from those of the last successful start.
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	// LifecycleOnDeleted is called after the connector was deleted, with the settings
	// of the last successful start, unless it never started. Neither Configure nor
	// Open is called before it. It is repeated until it succeeds.
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
}

// AckIgnorer is a Source to which acknowledgements mean nothing. Only the sources of this
// process are asked.
type AckIgnorer interface {
	// IgnoresAcks reports whether Ack does nothing, so that it need not be called.
	IgnoresAcks() bool
}

// LimitedSource is a Source that returns only a limited number of records before some of them are acknowledged, because
// its system sends or keeps no more. The agent uses it only for sources in its own process.
type LimitedSource interface {
	// MaxUnacked returns how many records can be read and not acknowledged, 0 for any number. It is called after
	// Configure. The host waits for no more than that many records to fill a batch or a window.
	MaxUnacked() int
}

// AwaitedSource is a Source whose senders wait for the acknowledgement of their records, and give up after a time. The
// agent uses it only for sources in its own process.
type AwaitedSource interface {
	// AckTimeout returns how long senders wait, 0 for any time. It is called after Configure.
	AckTimeout() time.Duration
}

// FinishingSource is a Source that waits for the rest of a partial record, such as the end of a line. The agent uses it
// only for sources in its own process.
type FinishingSource interface {
	// Finish tells the source that no more data comes: it takes a partial record at the end as complete. It is called
	// after Configure, concurrently with every other method and maybe several times, and never waits.
	Finish()
}

// SourceBase has the methods of Source that many sources have no use for.
type SourceBase struct{ LifecycleBase }

// Ack does nothing.
func (SourceBase) Ack(context.Context, []record.Position) error { return nil }

// Teardown does nothing.
func (SourceBase) Teardown(context.Context) error { return nil }

// DestinationBase has the methods of Destination that many destinations have no use for.
type DestinationBase struct{ LifecycleBase }

// Teardown does nothing.
func (DestinationBase) Teardown(context.Context) error { return nil }

// LifecycleBase ignores all lifecycle events.
type LifecycleBase struct{}

// LifecycleOnCreated does nothing.
func (LifecycleBase) LifecycleOnCreated(context.Context, map[string]string) error { return nil }

// LifecycleOnUpdated does nothing.
func (LifecycleBase) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}

// LifecycleOnDeleted does nothing.
func (LifecycleBase) LifecycleOnDeleted(context.Context, map[string]string) error { return nil }

// ErrBackoffRetry may be returned by Source.Read when there is nothing to read now:
// Read is called again after a pause, which grows from 100 ms to 5 s while it repeats.
var ErrBackoffRetry = errors.New("nothing to read, try again later")

// Unavailable returns err as one that is no record's fault: the disk is full, say, or the
// network is down. When Destination.Write returns it, no record is refused or goes to the
// dead-letter queue: the pipeline fails, and is started again after a pause that grows
// while it repeats, from the first record that was not written. It returns nil for nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return unavailableError{err}
}

type unavailableError struct{ error }

// Lost reports that another try may well succeed.
func (unavailableError) Lost() bool { return true }

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }

// Permanent returns err as one that no other try mends: only somebody who changes the
// pipeline, what it refers to, or the position does. When Open, Read or a method of Lifecycle
// returns it, the pipeline is degraded at once instead of started again and again. Every error of
// Configure counts as permanent. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// StartOver says, in an error about a position that no other try can resume at, how a source starts over.
const StartOver = "to start over, stop the pipeline and run `conduit connectors position ID reset`, or give the connector another id"

// CannotResume returns the permanent error of an Open that is given a position that is not one of
// this kind, as in "a position of file". It says how to start over.
func CannotResume(pos record.Position, kind string) error {
	return Permanent(fmt.Errorf("cannot resume at position %.200q: that is not %s; %s", pos, kind, StartOver))
}

type permanentError struct{ error }

// Permanent reports that no other try mends it.
func (permanentError) Permanent() bool { return true }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }
