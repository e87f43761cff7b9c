// Package connector defines the contract of a running connector. Plugin hosts return connectors and the data plane
// drives them, in this process or in a process of their own.
package connector

import (
	"context"
	"math"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Connector is the interface common to all running connectors. When its context ends a call returns soon; then the
// connector is broken, and only Teardown may follow.
type Connector interface {
	// Configure passes the settings to the connector. The error describes invalid settings.
	Configure(ctx context.Context, settings map[string]string) error
	// LifecycleOnCreated notifies the connector about the first start.
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	// LifecycleOnUpdated notifies the connector of a start with changed settings.
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	// LifecycleOnDeleted notifies the connector that it will not start again with these settings.
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
	// Teardown ends the connector in any state, and releases all resources. It is the last call and always returns: it
	// abandons a connector that does not answer in time, and returns an error.
	Teardown(ctx context.Context) error
}

// Source is a running source. Read, Ack and Stop may be called concurrently with each other, but no method with itself.
type Source interface {
	Connector
	// Open prepares for reading after pos, or from the beginning if pos is empty.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next batch, never an empty one. Every record has a position, its read time and the id of the
	// connector. Read returns io.EOF after Stop once everything up to the last position was returned.
	Read(ctx context.Context) (*record.Batch, error)
	// Ack reports that the records at these positions are settled and that the last position is durable as the place to
	// resume from. Positions come in the order read, each once.
	Ack(ctx context.Context, positions []record.Position) error
	// Stop ends reading. Read returns the records read before Stop, then io.EOF.
	Stop(ctx context.Context) error
}

// ProgressOf returns the progress that a source reports, or the zero Report if it reports none. It may be called at any
// time.
func ProgressOf(s Source) progress.Report {
	if r, ok := s.(sdk.Reporter); ok {
		return r.Progress()
	}
	return progress.Report{}
}

// IgnoresAcks reports whether Ack of a source does nothing, so that it need not be called.
func IgnoresAcks(s Source) bool {
	i, ok := s.(sdk.AckIgnorer)
	return ok && i.IgnoresAcks()
}

// LineSource is a Source that can return its records as lines.
type LineSource interface {
	Source
	// NoLines returns why ReadLines must not be called, "" if it may. It is called after Configure.
	NoLines() string
	// ReadLines is like Read, but the batch may be made of lines.
	ReadLines(ctx context.Context) (*record.Batch, error)
}

// NoLines returns why the records of a source, or the records for a destination, cannot be lines; "" if they can.
// Only a destination in this process that writes nothing but payloads takes lines; its Write then does not make records
// of them.
func NoLines(c Connector) string { return sdk.NoLines(c) }

// Overlaps reports whether an open destination begins writes while earlier ones are in progress. Then it writes faster
// with more outstanding records.
func Overlaps(d Destination) bool {
	o, ok := d.(interface{ Overlaps() bool })
	return ok && o.Overlaps()
}

// Destination is a running destination.
type Destination interface {
	Connector
	// Open prepares for writing. From then on settled is called, one call at a time and in the order of the records
	// written. A call settled(n, nil) means that the next n records are durable downstream; with an error, they were
	// refused because of err. A call with n = 0 means that the connector broke because of err, and settles nothing
	// more. settled is called from any goroutine, possibly from within Write, and may block.
	Open(ctx context.Context, settled func(n int, err error)) error
	// Write passes b to the connector. It blocks while the connector applies backpressure. An error means that the
	// connector is broken, not that a record was refused.
	Write(ctx context.Context, b *record.Batch) error
	// Flush writes out buffered records and returns when every record written is settled. No Write follows.
	Flush(ctx context.Context) error
}

// Finish notifies an sdk.FinishingSource that no more records come.
func Finish(s Source) {
	if f, ok := s.(sdk.FinishingSource); ok {
		f.Finish()
	}
}

// MaxUnacked returns the maximum number of unacknowledged records of a configured source. The source returns no more
// before some are acknowledged.
func MaxUnacked(s Source) uint64 {
	if l, ok := s.(sdk.LimitedSource); ok {
		if n := l.MaxUnacked(); n > 0 {
			return uint64(n)
		}
	}
	return math.MaxUint64
}

// Gatherer is a Destination that buffers records over several writes, and can write them out at any time.
type Gatherer interface {
	// WriteOut writes out the buffered records, and returns when every written record is settled. Unlike after Flush,
	// Write may follow.
	WriteOut(ctx context.Context) error
}

// StopAndWaiter is a Destination that, with several outstanding writes, also refuses the records after a refused one.
// With stop-and-wait it refuses only the failed record.
type StopAndWaiter interface {
	// StopAndWait makes every write wait for the answer to the previous one. It is called before Open, and not on
	// connectors that gather records over several writes.
	StopAndWait()
}

// LargestRead returns the maximum number of bytes that the first Read of a source may return without a call of
// sdk.Reserve, 0 for few.
func LargestRead(s Source) int {
	if l, ok := s.(interface{ LargestRead() int }); ok {
		return l.LargestRead()
	}
	return 0
}
