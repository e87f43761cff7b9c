// Package sdk defines the interfaces that connectors implement: a Source that reads records from a system, a
// Destination that writes records to one, or both.
//
// The package has no transport. The same Connector value runs inside the agent and, served by package wire, as an
// executable.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Connector describes a connector and creates its instances.
type Connector struct {
	Name        string // name in pipelines: letters, digits, '-', '_' and '.'
	Summary     string // one line
	Description string
	Version     string // semantic version with a leading v
	Author      string

	NewSource      func() Source      // nil: the connector has no source
	NewDestination func() Destination // nil: the connector has no destination

	// Defaults of sdk.* parameters that differ from the standard ones, by name.
	SourceDefaults, DestinationDefaults map[string]string

	standard bool // created by Standard
}

// NoSchemas returns SourceDefaults that switch off schema extraction.
func NoSchemas() map[string]string {
	return map[string]string{
		"sdk.schema.extract.key.enabled":     "false",
		"sdk.schema.extract.payload.enabled": "false",
	}
}

// Source reads records. The methods are called one at a time and in the order Configure, Lifecycle…, Open, repeated
// Read, and Teardown last, with one exception: Ack may be called while Read waits, but never concurrently with itself.
// For a specification only Parameters is called.
//
// Embed SourceBase to implement only the necessary methods.
type Source interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a connector.
	Parameters() Parameters
	// Configure checks and keeps the settings. It touches nothing outside the process.
	// Settings have been trimmed and defaulted, and checked against Parameters.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for reading after the record at pos, or from the beginning if pos is empty. ctx ends when Open
	// returns.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next records, at least one. It waits until there is a record, but never to fill a batch. Every
	// record has a position that is unique within the source. When ctx ends, Read returns soon, with ctx.Err() or with
	// records. The records belong to the caller.
	Read(ctx context.Context) ([]record.Record, error)
	// Ack reports that the records at these positions are settled: every destination has them, and a restart resumes
	// after the last one. Positions come in the order read, each once.
	Ack(ctx context.Context, positions []record.Position) error
	// Teardown releases everything. It is the last call, also after a failed Configure or Open.
	Teardown(ctx context.Context) error

	Lifecycle
}

// Reporter is a Source that knows its lag behind its system. The agent uses it only for sources in its own process,
// because the connector protocol has no such call.
type Reporter interface {
	// Progress returns the current progress without waiting. It is called between Open and Teardown, concurrently with
	// every other method.
	Progress() progress.Report
}

// Destination writes records. The methods are called one at a time, in the order Configure, Lifecycle…, Open, repeated
// Write, Teardown.
//
// Embed DestinationBase to implement only the necessary methods.
type Destination interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a connector.
	Parameters() Parameters
	// Configure checks and keeps the settings. It touches nothing outside the process.
	// Settings have been trimmed and defaulted, and checked against Parameters.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for writing.
	Open(ctx context.Context) error
	// Write writes the records in order. When it returns, the first n are durable downstream. If n < len(records), the
	// error is the reason why record n is refused; the records after it were not tried. An error made by Unavailable
	// refuses no record, and breaks the destination. The records are lent until they are settled. Others read them,
	// too, so Write must not change them.
	Write(ctx context.Context, records []record.Record) (n int, err error)
	// Teardown releases everything. It is the last call.
	Teardown(ctx context.Context) error

	Lifecycle
}

// Lifecycle is called when a connector is created, changed and deleted, so that it can set up resources once and clean
// them up at the end, even after restarts and crashes.
type Lifecycle interface {
	// LifecycleOnCreated is called before the first Open ever. An error keeps the connector from starting, and
	// LifecycleOnCreated is called again at the next start.
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	// LifecycleOnUpdated is called before the first Open with settings that differ from the settings of the last
	// successful start.
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	// LifecycleOnDeleted is called after the connector was deleted, with the settings
	// of the last successful start, unless it never started. Neither Configure nor
	// Open is called before it. It is repeated until it succeeds.
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
}

// AckIgnorer is a Source that may ignore acknowledgements. The agent uses it only for sources in its own process.
type AckIgnorer interface {
	// IgnoresAcks reports whether Ack does nothing, so that it need not be called.
	IgnoresAcks() bool
}

// LimitedSource is a Source that returns only a limited number of records before some are acknowledged, because its
// system sends or keeps no more. The agent uses it only for sources in its own process.
type LimitedSource interface {
	// MaxUnacked returns the maximum number of unacknowledged records, 0 for no limit. It is called after Configure.
	// The host waits for no more than that many records to fill a batch or a window.
	MaxUnacked() int
}

// AwaitedSource is a Source whose senders wait for the acknowledgement of their records, with a timeout. The agent uses
// it only for sources in its own process.
type AwaitedSource interface {
	// AckTimeout returns the timeout of the senders, 0 for none. It is called after Configure.
	AckTimeout() time.Duration
}

// FinishingSource is a Source that waits for the rest of a partial record, such as the end of a line. The agent uses it
// only for sources in its own process.
type FinishingSource interface {
	// Finish tells the source that no more data comes: the source treats a partial record at the end as complete. It is
	// called after Configure, concurrently with every other method and maybe several times, and never waits.
	Finish()
}

// Noter is a Source that knows facts about its settings that are in order and may surprise, such as a pattern that
// matches no file. The agent uses it only for sources in its own process.
type Noter interface {
	// Notes returns the facts, each a clause without a period. It is called after Configure, and needs no Open. It may
	// look at this machine, but changes nothing.
	Notes(ctx context.Context) []string
}

// SourceBase implements the optional methods of Source.
type SourceBase struct{ LifecycleBase }

// Ack does nothing.
func (SourceBase) Ack(context.Context, []record.Position) error { return nil }

// Teardown does nothing.
func (SourceBase) Teardown(context.Context) error { return nil }

// DestinationBase implements the optional methods of Destination.
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

// ErrBackoffRetry may be returned by Source.Read if there is nothing to read now. Read is called again after a pause,
// which grows from 100 ms to 5 s with each repetition.
var ErrBackoffRetry = errors.New("nothing to read, try again later")

// Unavailable marks err as an error that is not the fault of a record, such as a full disk or a network outage. If
// Destination.Write returns it, no record is refused or goes to the dead-letter queue. Instead the pipeline fails and
// restarts from the first record that was not written, after a pause that grows with each repetition. Unavailable
// returns nil for nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return unavailableError{err}
}

type unavailableError struct{ error }

// Lost reports that a retry may succeed.
func (unavailableError) Lost() bool { return true }

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }

// Permanent marks err as an error that no retry can fix: someone has to change the pipeline, something that it refers
// to, or the position. If Open, Read or a method of Lifecycle returns it, the pipeline becomes degraded at once instead
// of restarting repeatedly. Every error of Configure counts as permanent. Permanent returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// StartOver is the instruction to start a source over, for an error about a position from which no retry can resume.
const StartOver = "to start over, stop the pipeline and run `conduit connectors position ID reset`, or give the " +
	"connector another id"

// CannotResume returns the permanent error of an Open whose position is not of this kind, as in "a position of file".
// The error contains StartOver.
func CannotResume(pos record.Position, kind string) error {
	return Permanent(fmt.Errorf("cannot resume at position %.200q: it is not %s; %s", pos, kind, StartOver))
}

type permanentError struct{ error }

// Permanent reports that no retry can succeed.
func (permanentError) Permanent() bool { return true }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }
