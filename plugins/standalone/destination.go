package standalone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Destination is a destination connector in its own process. Its methods are
// called one at a time.
type Destination struct {
	instance
	stream *stream
	unanswered
	settled func(n int, err error)
	schemas *schema.Cache // nil: none

	stopAndWait bool            // Write waits for the answers to one message before it sends the next
	awaited     atomic.Int64    // outstanding answers to the last message, with stopAndWait
	answers     chan []wire.Ack // answers for a Write that waits for them
	report      sync.Mutex      // held while settled runs; Write calls settled, too, when it waits for answers

	last     record.Position // position of the last record sent
	flushing chan struct{}   // closed when Write is no longer called
	done     chan struct{}   // closed after the last result
	err      error           // why the connector broke, set before done is closed
}

func newDestination(c *instance) *Destination {
	return &Destination{instance: *c, schemas: c.client.Schemas.cache(), flushing: make(chan struct{}),
		done: make(chan struct{}), answers: make(chan []wire.Ack),
		unanswered: unanswered{changed: notify.NewSignal(), empty: notify.NewSignal()}}
}

// Open prepares for writing. From then on settled is called for the answers of the plugin, one call at a time and in
// the order of the records written. A call with n = 0 means that the connector broke, for the given reason, and is the
// last one.
func (d *Destination) Open(ctx context.Context, settled func(n int, err error)) (err error) {
	if err = d.open(ctx, nil); err != nil {
		return err
	}
	if d.stream, err = d.openStream(0); err != nil {
		return err
	}
	d.settled = func(n int, err error) {
		d.report.Lock()
		defer d.report.Unlock()
		settled(n, err)
	}
	go d.settleAll()
	return nil
}

// targetMessage is the size in bytes at which a message is sent. Larger messages are not faster.
const targetMessage = 1 << 20

// Write sends b to the plugin. It blocks while the plugin accepts no more. A record that cannot be sent is refused
// after the records before it were answered.
func (d *Destination) Write(ctx context.Context, b *record.Batch) error {
	b = d.withSchemas(ctx, b)
	for i := 0; i < b.Len(); {
		f, j, refused := d.encode(b, i)
		if d.stopAndWait {
			if i, refused = d.writeAndWait(ctx, b, f, i, j, refused); refused != nil {
				return refused
			}
			continue
		}
		part := b
		if i > 0 || j < b.Len() {
			part = b.Slice(i, j)
		}
		d.expect(record.PositionsOf(part), refused)
		if refused == nil {
			if err := d.send(ctx, f, b.Position(j-1)); err != nil {
				return err
			}
		}
		i = j
	}
	return nil
}

// send sends a message whose last record has position last.
func (d *Destination) send(ctx context.Context, f wire.Frame, last record.Position) error {
	d.last = append(d.last[:0], last...)
	if err := d.stream.send(ctx, f); err != nil {
		return fmt.Errorf("cannot write to connector %s: %w", d.id, d.reason(err))
	}
	return nil
}

// withSchemas returns b with structured data encoded by the schema that each record names, because the wire format has
// neither integers nor times. Data that does not fit its schema stays unchanged.
func (d *Destination) withSchemas(ctx context.Context, b *record.Batch) *record.Batch {
	records, decoded := b.Decoded()
	if d.schemas == nil || !decoded || !slices.ContainsFunc(records, namesSchema) {
		return b
	}
	records = slices.Clone(records) // the batch may be shared
	for i := range records {
		for _, part := range []schema.Parts{{Key: true}, {Payload: true}} {
			if err := d.schemas.EncodeRecord(ctx, &records[i], part); err != nil {
				d.log.Debug("sending a record without its schema", "err", err)
			}
		}
	}
	return record.NewBatch(records)
}

func namesSchema(r record.Record) bool {
	return r.Metadata.Get(record.KeyPayloadSchemaSubject) != "" || r.Metadata.Get(record.KeyKeySchemaSubject) != ""
}

// encode returns a message of the records i to j-1, as many as fit. An error means that record i cannot be sent.
func (d *Destination) encode(b *record.Batch, i int) (f wire.Frame, j int, err error) {
	f = make(wire.Frame, 0, min(b.Size()+100*(b.Len()-i), targetMessage+targetMessage/8))
	for j = i; j < b.Len() && len(f) < targetMessage; j++ {
		if d.p.version == wire.Version1 && j > i {
			break
		}
		g, err := b.AppendWire(f, j, j+1)
		if err == nil && len(g) > d.client.maxMessage() {
			err = fmt.Errorf("the record has %d bytes, more than the %d that the plugin accepts", len(g)-len(f),
				d.client.maxMessage())
		}
		if err != nil && j > i {
			return g[:len(f)], j, nil
		}
		if err != nil {
			return nil, i + 1, err
		}
		f = g
	}
	return f, j, nil
}

// settleAll passes on results until the stream ends.
func (d *Destination) settleAll() {
	defer close(d.done)
	err := d.results()
	d.stream.cancel()
	d.err = fmt.Errorf("connector %s failed: %w", d.id, err)
	if !isClosed(d.flushing) {
		d.settled(0, d.err)
	}
}

func (d *Destination) results() error {
	for {
		select {
		case f, ok := <-d.stream.received:
			if !ok {
				return d.stream.failure()
			}
			d.stream.release(f)
			acks, err := wire.ParseAcks(f, d.p.version, d.expected()+1) // one answer too many is an error
			if err != nil {
				return err
			}
			if d.stopAndWait {
				d.answer(acks)
				continue
			}
			if err := d.settle(acks); err != nil {
				return err
			}
		case <-d.changed:
			d.settleRefused()
		}
	}
}

// expected returns the maximum number of outstanding answers.
func (d *Destination) expected() int {
	if d.stopAndWait {
		return int(d.awaited.Load())
	}
	return d.outstanding()
}

// settle passes on the plugin's answers, and combines consecutive answers of the same kind.
func (d *Destination) settle(acks []wire.Ack) error {
	written := 0
	flush := func() {
		if written > 0 {
			d.pass(written, nil)
			written = 0
		}
	}
	defer func() { flush(); d.settleRefused() }()
	d.settleRefused()
	for _, a := range acks {
		partDone, err := d.take(a.Position)
		if err != nil {
			return err
		}
		if a.Error == "" {
			written++
		} else {
			flush()
			d.pass(1, errors.New(texts.Truncate(a.Error, texts.MaxFullError)))
		}
		if partDone {
			flush()
			d.settleRefused()
		}
	}
	return nil
}

// settleRefused passes on refusals by the host once all records before them are answered.
func (d *Destination) settleRefused() {
	for {
		refused := d.takeRefused()
		if refused == nil {
			d.noteEmpty()
			return
		}
		d.pass(1, refused)
	}
}

// pass passes on the result of the next n records.
func (d *Destination) pass(n int, err error) {
	d.settled(n, err)
	d.passedOn(n)
}

// Flush returns when every record written is settled. Plugins flush their buffers on different signals: a Stop with the
// last position, or the end of the stream.
func (d *Destination) Flush(ctx context.Context) error {
	close(d.flushing)
	stopCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		req := &connectorv2.Destination_Stop_Request{LastPosition: d.last}
		if err := d.call(stopCtx, "Stop", d.client.stopTimeout(), req,
			&connectorv2.Destination_Stop_Response{}); err != nil && stopCtx.Err() == nil {
			d.log.Warn("destination did not stop on request", "err", err)
		}
	}()
	if err := d.waitSettled(ctx, stopped); err != nil {
		return fmt.Errorf("cannot flush connector %s: %w", d.id, err)
	}
	select {
	case <-stopped:
	case <-time.After(d.client.quietTimeout()): // some plugins wait for records that they already have
	case <-ctx.Done():
	}
	cancel()
	<-stopped
	return nil
}

func (d *Destination) waitSettled(ctx context.Context, stopped <-chan struct{}) error {
	var late <-chan time.Time
	for d.outstanding() > 0 {
		select {
		case <-d.empty:
		case <-stopped:
			d.stream.half()
			stopped, late = nil, time.After(d.client.stopTimeout())
		case <-d.done:
			if n := d.outstanding(); n > 0 {
				return fmt.Errorf("%d records were not acknowledged: %w", n, d.err)
			}
		case <-late:
			return fmt.Errorf("%d records were not acknowledged within %v", d.outstanding(), d.client.stopTimeout())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// reason returns the reason why the connector broke, which may be more specific than the error of the stream.
func (d *Destination) reason(err error) error {
	if isClosed(d.done) {
		return d.err
	}
	return err
}

// Teardown ends the connector and its process.
func (d *Destination) Teardown(ctx context.Context) error {
	if !isClosed(d.flushing) {
		close(d.flushing)
	}
	if d.stream != nil {
		d.stream.close()
		<-d.done
	}
	return d.teardown(ctx)
}
