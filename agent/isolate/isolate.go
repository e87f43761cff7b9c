// Package isolate keeps the records of a destination in a log on disk, so that a slow or failing destination does not
// hold up other destinations of the pipeline.
//
// A Destination takes the place of the real one in a run of the engine. A record counts as written once the log has it
// and is synced. Then the source may be acknowledged. A feeder writes the records of the log, in order, to the real
// destination, and starts it again with exponential backoff when it fails. The log's cursor is saved only after the
// real destination has settled the records before it, its writes are synced, and their dead letters are durable: the
// feeder commits like a source of the engine, through its own Committer. Records that are delivered twice after a crash
// are delivered in order.
//
// A wrapped destination was chosen over a second run of the engine that reads the log. The engine acknowledges and
// resumes by the positions of records, so a second run would have to replace them; destinations deduplicate by them,
// and dead letters are found by them. Here they stay, and everything before the destination works as without a log:
// routing, processors, inspection, refusals, hot reload.
package isolate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
	"github.com/conduit-agent/conduit/spec"
)

var (
	_ engine.Isolated    = (*Destination)(nil)
	_ connector.Gatherer = (*Destination)(nil)
)

// Options are the inputs of New. All fields without a comment about their zero value are required.
type Options struct {
	Pipeline string // id
	ID       string // qualified id of the destination
	Logs     Logs
	// Limits are those of the declaration. If they are nil, the destination is no longer isolated: it writes the rest
	// of the log before it accepts records, removes the log, and then passes records on directly.
	Limits *spec.Isolation
	// Sources are the qualified ids of the sources of the pipeline.
	Sources []string
	// Start returns a new instance of the real destination, which is not configured.
	Start func(ctx context.Context) (connector.Destination, error)
	// Batching returns the batching policy of the real destination with these settings.
	Batching func(settings map[string]string) engine.BatchPolicy
	// Delay returns the time before the next attempt after this number of failures in a row.
	Delay func(failures int) time.Duration
	// AnswerTimeout is how long the real destination may take to settle a record; 0: any time.
	AnswerTimeout time.Duration
	// CommitInterval is the shortest time between two saves of the cursor.
	CommitInterval time.Duration
	// Barrier makes the writes of the real destination durable; nil: they already are when they are settled.
	Barrier engine.Barrier
	// KeepDeadLetters makes the dead letters of the pipeline durable; nil: there are none.
	KeepDeadLetters func(ctx context.Context) error
	// Memory accounts for records on their way to the real destination; nil: nothing does.
	Memory spoollog.Memory
	// Redact removes secrets from a text; nil: it has none.
	Redact func(text string) string
	// Event records an event of the pipeline, of type spec.EventNormal or spec.EventWarning.
	Event func(typ, reason, message string)
	Log   *slog.Logger
}

// Destination is an isolated destination.
type Destination struct {
	Options
	settings map[string]string
	batching engine.BatchPolicy
	single   bool // the real destination refuses only records that fail
	queue    engine.DeadLetterQueue

	log     *spoollog.Log
	release func() error
	reader  *spoollog.Reader
	detach  func()
	writer  *spoollog.Writer
	settled func(n int, err error)

	dropped uint64 // records of the log dropped before the last append; used by Write

	feeder *feeder
	opened atomic.Bool // the fields above are set

	mu       sync.Mutex
	prepared connector.Destination // guarded by mu: configured, for the first attempt
	waits    bool                  // guarded by mu: Write waits for room
	fullAt   time.Time             // guarded by mu: when the log was full last; zero when it has room again
	oldestAt uint64                // guarded by mu: offset of the record that oldest belongs to
	oldest   time.Time             // guarded by mu
}

// readerName is the name of the only reader of a log.
const readerName = "destination"

// New returns a destination that is not configured.
func New(o Options) *Destination { return &Destination{Options: o} }

// Configure starts the real destination and passes the settings to it.
func (d *Destination) Configure(ctx context.Context, settings map[string]string) error {
	d.settings, d.batching = settings, d.Batching(settings)
	real, err := d.start(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared = real
	return nil
}

// start returns a new instance of the real destination, configured.
func (d *Destination) start(ctx context.Context) (connector.Destination, error) {
	real, err := d.Start(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := real.(interface{ SyncAs(name string) }); ok {
		s.SyncAs(d.syncs())
	}
	if err := real.Configure(ctx, d.settings); err != nil {
		return nil, errors.Join(err, d.tearDown(ctx, real))
	}
	return real, nil
}

// syncs returns the name under which the writes of the real destination are synced. An isolated one has its own name,
// which no pipeline has: a slow disk must not delay the checkpoints of the pipeline.
func (d *Destination) syncs() string {
	if d.Limits == nil {
		return d.Pipeline
	}
	return d.ID + "/isolated"
}

// tearDown tears down an instance of the real destination, which takes limited time, also after ctx has ended.
func (d *Destination) tearDown(ctx context.Context, real connector.Destination) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return real.Teardown(ctx)
}

// LifecycleOnCreated passes the event to the real destination.
func (d *Destination) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return d.prepared.LifecycleOnCreated(ctx, settings)
}

// LifecycleOnUpdated passes the event to the real destination.
func (d *Destination) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return d.prepared.LifecycleOnUpdated(ctx, before, after)
}

// LifecycleOnDeleted passes the event to the real destination.
func (d *Destination) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return d.prepared.LifecycleOnDeleted(ctx, settings)
}

// StopAndWait implements connector.StopAndWaiter.
func (d *Destination) StopAndWait() { d.single = true }

// NoLines returns why the destination takes no lines.
func (d *Destination) NoLines() string { return spec.IsolatedLines }

// RefuseTo implements engine.Isolated.
func (d *Destination) RefuseTo(q engine.DeadLetterQueue) { d.queue = q }

// Open opens the log, and starts to write its records to the real destination. It does not wait for the real
// destination to open.
func (d *Destination) Open(ctx context.Context, settled func(n int, err error)) (err error) {
	d.settled = settled
	dir, err := d.Logs.create(d.Pipeline, connectorOf(d.Pipeline, d.ID))
	if err == nil {
		d.log, d.release, err = spoollog.OpenShared(dir, nil, d.Log)
	}
	if err != nil {
		return fmt.Errorf("cannot open the log of the isolated destination %s: %w", d.ID, err)
	}
	if d.reader, err = d.log.Reader(readerName); err != nil {
		return fmt.Errorf("cannot open the log of the isolated destination %s: %w", d.ID, err)
	}
	d.detach, d.writer = d.reader.Attach(), d.log.Writer()
	d.log.SetLimits(limits(d.Limits))
	d.dropped = d.log.Counts().Dropped
	d.feeder = newFeeder(d)
	d.feeder.begin(ctx)
	d.opened.Store(true)
	return nil
}

// limits returns the limits of a log in its terms. A log that is only drained has none.
func limits(declared *spec.Isolation) spoollog.Limits {
	if declared == nil {
		return spoollog.Limits{}
	}
	full := map[spec.IsolationFull]spoollog.Full{
		spec.IsolationBlocks:      spoollog.Block,
		spec.IsolationDropsOldest: spoollog.DropOldest,
		spec.IsolationRefuses:     spoollog.Refuse,
	}
	return spoollog.Limits{Bytes: declared.Bytes, Age: declared.MaxAge(), Full: full[declared.Policy()]}
}

// Write appends the records to the log and settles them once the log is synced. Without limits it waits until the log
// is empty, and passes the records on.
func (d *Destination) Write(ctx context.Context, b *record.Batch) error {
	if d.Limits == nil {
		real, err := d.feeder.drained(ctx)
		if err != nil {
			return err
		}
		return real.Write(ctx, b)
	}
	records, err := b.Records()
	if err != nil {
		return err
	}
	for records = withPositions(records); len(records) > 0; {
		frames, n, refused := spoollog.Encode(records)
		if err := d.appendAll(ctx, frames); err != nil {
			return err
		}
		if records = records[n:]; refused != nil {
			d.settled(1, refused)
			records = records[1:]
		}
	}
	return nil
}

// keyPosition is the key of the metadata field in which the log keeps the position of a record, after all others.
const keyPosition = "conduit.isolate.position"

// withPositions returns copies of records that have their position in their metadata, too.
func withPositions(records []record.Record) []record.Record {
	fields := 0
	for i := range records {
		fields += len(records[i].Metadata) + 1
	}
	all, memory := slices.Clone(records), make(record.Metadata, 0, fields)
	for i := range all {
		start := len(memory)
		memory = append(memory, all[i].Metadata...)
		memory = append(memory, record.Field{Key: keyPosition, Value: string(all[i].Position)})
		all[i].Metadata = memory[start:len(memory):len(memory)]
	}
	return all
}

// restorePositions undoes withPositions.
func restorePositions(records []record.Record) {
	for i := range records {
		md := records[i].Metadata
		if last := len(md) - 1; last >= 0 && md[last].Key == keyPosition {
			records[i].Position, records[i].Metadata = record.Position(md[last].Value), md[:last]
		}
	}
}

// appendAll appends frames to the log in groups, so that a large batch fits into a small log.
func (d *Destination) appendAll(ctx context.Context, frames []spoollog.Frame) error {
	most := min(int(d.Limits.Bytes/groupParts), groupBytes)
	for len(frames) > 0 {
		n, records, bytes := 0, 0, 0
		for n < len(frames) && (n == 0 || bytes+frames[n].Bytes() <= most) {
			records, bytes = records+frames[n].Records(), bytes+frames[n].Bytes()
			n++
		}
		if err := d.append(ctx, frames[:n], records, bytes); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// A group of frames has at most groupBytes, and at most this part of the log. A frame of more than half of the log
// could wait for room forever, since the log keeps the file that it writes to.
const (
	groupBytes = 1 << 20
	groupParts = 8
)

// append appends a group of frames, which have this number of records and bytes, and settles them.
func (d *Destination) append(ctx context.Context, frames []spoollog.Frame, records, bytes int) error {
	if int64(bytes) > d.Limits.Bytes/2 {
		d.settled(records, fmt.Errorf("the record takes %d bytes in the log of the isolated destination, more than half "+
			"of the limit; raise bytes of isolate", bytes))
		return nil
	}
	commit, err := d.appended(ctx, frames)
	if errors.Is(err, spoollog.ErrFull) {
		d.settled(records, fmt.Errorf("the log of the isolated destination is full: it has %d bytes and the destination "+
			"does not take them", d.log.Stats().Bytes))
		return nil
	}
	if err == nil {
		err = commit.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot write to the log of the isolated destination: %w", err)
	}
	d.settled(records, nil)
	return nil
}

// appended appends frames, and waits for room if the policy is block. It records whether the log is full.
func (d *Destination) appended(ctx context.Context, frames []spoollog.Frame) (*spoollog.Commit, error) {
	ended, cancel := context.WithCancel(ctx)
	cancel() // returns at once if there is no room
	commit, err := d.writer.Append(ended, frames)
	switch {
	case err == nil:
		if dropped := d.log.Counts().Dropped; dropped > d.dropped {
			d.dropped = dropped
			d.noteFull("its oldest records are dropped")
		}
		return commit, nil
	case errors.Is(err, spoollog.ErrFull):
		d.noteFull("new records go to the dead-letter queue")
		return nil, err
	case !errors.Is(err, context.Canceled) || ctx.Err() != nil:
		return nil, err
	}
	d.noteFull("the pipeline waits")
	d.setWaits(true)
	defer d.setWaits(false)
	return d.writer.Append(ctx, frames)
}

// setWaits records whether Write waits for room.
func (d *Destination) setWaits(waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = waits
}

// noteFull records that the log is full, and what follows.
func (d *Destination) noteFull(then string) {
	d.mu.Lock()
	first := d.fullAt.IsZero()
	d.fullAt = time.Now()
	d.mu.Unlock()
	if !first {
		return
	}
	records, bytes := d.waiting()
	message := fmt.Sprintf("the log of destination %s is full, %s: %d records of %d bytes wait for the destination",
		d.ID, then, records, bytes)
	d.Log.Warn("the log of an isolated destination is full", "connector", d.ID, "records", records, "bytes", bytes,
		"full", d.Limits.Policy())
	d.Event(spec.EventWarning, "IsolationFull", message)
}

// A log counts as full until it was not full for roomAfter and has this part of the limit free: near the limit, it is
// full and has room in turns.
const (
	roomAfter = 10 * time.Second
	roomParts = 8
)

// noteRoom records that the log is no longer full, if it was full.
func (d *Destination) noteRoom() {
	if d.Limits == nil {
		return
	}
	_, bytes := d.waiting()
	d.mu.Lock()
	room := !d.fullAt.IsZero() && !d.waits && time.Since(d.fullAt) >= roomAfter &&
		bytes <= d.Limits.Bytes-d.Limits.Bytes/roomParts
	if room {
		d.fullAt = time.Time{}
	}
	d.mu.Unlock()
	if room {
		d.Event(spec.EventNormal, "IsolationRoom", fmt.Sprintf("the log of destination %s has room again", d.ID))
	}
}

// WaitsForRoom implements engine.Isolated.
func (d *Destination) WaitsForRoom() bool {
	if !d.opened.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waits || d.Limits == nil && d.feeder.draining()
}

// WriteOut implements connector.Gatherer, for a destination that is no longer isolated.
func (d *Destination) WriteOut(ctx context.Context) error { return d.feeder.writeOut(ctx) }

// Flush stops the feeder: it reads nothing more from the log, and the real destination settles the records written to
// it, unless that takes long. Other records stay in the log.
func (d *Destination) Flush(ctx context.Context) error { return d.feeder.flush(ctx) }

// Teardown ends the real destination and closes the log.
func (d *Destination) Teardown(ctx context.Context) error {
	var err error
	if d.opened.Load() {
		err = d.feeder.end(ctx)
	}
	d.mu.Lock()
	prepared := d.prepared
	d.prepared = nil
	d.mu.Unlock()
	if prepared != nil {
		err = errors.Join(err, prepared.Teardown(ctx))
	}
	if d.detach != nil {
		d.detach()
	}
	if d.Memory != nil {
		d.Memory.Close()
	}
	if d.release != nil {
		err = errors.Join(err, d.release())
	}
	return err
}

// take returns the configured instance for the first attempt, nil afterwards.
func (d *Destination) take() connector.Destination {
	d.mu.Lock()
	defer d.mu.Unlock()
	real := d.prepared
	d.prepared = nil
	return real
}
