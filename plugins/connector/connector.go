// Package connector is the contract of a running connector: what a plugin host returns and
// the data plane drives, whether the connector runs in this process or in one of its own.
package connector

import (
	"context"
	"math"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Connector is what every running connector offers. When its context ends a call returns
// soon; the connector is broken from then on, and only Teardown may follow.
type Connector interface {
	// Configure hands over the settings; an error says what is wrong with them.
	Configure(ctx context.Context, settings map[string]string) error
	// LifecycleOnCreated reports that the connector starts for the first time.
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	// LifecycleOnUpdated reports that it starts with other settings than the last time.
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	// LifecycleOnDeleted reports that it will not start again with these settings.
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
	// Teardown ends the connector, whatever state it is in, and releases all it holds.
	// It is the last call and always returns: a connector that does not answer in time
	// is given up, and the error says so.
	Teardown(ctx context.Context) error
}

// Source is a running source. Read, Ack and Stop may be called concurrently with each
// other, but none of them with itself.
type Source interface {
	Connector
	// Open prepares for reading after pos, from the beginning when pos is empty.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next batch, never an empty one. Every record has a position, the
	// time it was read and the id of the connector. It returns io.EOF when Stop was
	// called and everything up to the last position was returned.
	Read(ctx context.Context) (*record.Batch, error)
	// Ack reports that the records at these positions are settled and that the last of
	// them is durable as the place to resume from. Positions come in the order read, each
	// once.
	Ack(ctx context.Context, positions []record.Position) error
	// Stop ends reading. Read goes on to return what was read before, then io.EOF.
	Stop(ctx context.Context) error
}

// ProgressOf returns what a source reports of its distance to its system, nothing when it
// does not. It may be called at any time.
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

// Overlaps reports whether a destination that is open begins writes while earlier ones are under way, so that it
// writes the faster the more records are outstanding.
func Overlaps(d Destination) bool {
	o, ok := d.(interface{ Overlaps() bool })
	return ok && o.Overlaps()
}

// Destination is a running destination.
type Destination interface {
	Connector
	// Open prepares for writing. From then on settled is called, one call at a time and
	// in the order of the records written: the next n records are durable downstream, or,
	// when err is not nil, were refused because of err. With n = 0 the connector broke
	// because of err, and settles nothing more. It is called from any goroutine, possibly
	// from within Write, and may block.
	Open(ctx context.Context, settled func(n int, err error)) error
	// Write hands b over. It blocks while the connector applies backpressure. An error
	// means that the connector is broken, not that a record was refused.
	Write(ctx context.Context, b *record.Batch) error
	// Flush writes out what the connector holds back and returns when every record
	// written is settled. No Write follows.
	Flush(ctx context.Context) error
}

// Finish notifies an sdk.FinishingSource that no more records come.
func Finish(s Source) {
	if f, ok := s.(sdk.FinishingSource); ok {
		f.Finish()
	}
}

// MaxUnacked returns how many records of a source that was configured can be read and not acknowledged: before some of
// them are acknowledged it returns no more.
func MaxUnacked(s Source) uint64 {
	if l, ok := s.(sdk.LimitedSource); ok {
		if n := l.MaxUnacked(); n > 0 {
			return uint64(n)
		}
	}
	return math.MaxUint64
}

// Gatherer is a Destination that gathers records over several writes, and can write them out at any time.
type Gatherer interface {
	// WriteOut writes out the records that the connector holds back, and returns when every written record is settled.
	// Unlike after Flush, Write may follow.
	WriteOut(ctx context.Context) error
}

// StopAndWaiter is a Destination that, with several outstanding writes, refuses the records
// behind a refused one, too. With stop-and-wait it refuses only the one that failed.
type StopAndWaiter interface {
	// StopAndWait makes every write wait for the answer to the one before. It is called
	// before Open, and not on connectors that gather records over several writes.
	StopAndWait()
}

// LargestRead returns how many bytes the first Read of a source may return without that it
// asked for the memory (sdk.Reserve), 0 for few.
func LargestRead(s Source) int {
	if l, ok := s.(interface{ LargestRead() int }); ok {
		return l.LargestRead()
	}
	return 0
}
