package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/grpc"
)

// destinationServer serves one destination to one host.
type destinationServer struct {
	connectorv2.UnimplementedDestinationPluginServer
	env         *sdk.Env
	destination sdk.AsyncDestination // nil: the connector is not a destination

	torn     chan struct{} // closed by Teardown
	tearOnce sync.Once
	ran      sync.WaitGroup // waits for Run

	ended   chan struct{} // closed when Run has ended
	endOnce sync.Once
	failure error // error of Run, set before ended is closed; nil: none

	calls sync.Mutex // held while the destination writes or flushes

	mu    sync.Mutex
	last  record.Position // guarded by mu: position of the last received record
	moved chan struct{}   // guarded by mu: closed and replaced when last moves
}

func newDestinationServer(c sdk.Connector, env *sdk.Env) *destinationServer {
	d := &destinationServer{env: env, torn: make(chan struct{}), ended: make(chan struct{}), moved: make(chan struct{})}
	if c.NewDestination != nil {
		d.destination = c.NewDestination().(sdk.AsyncDestination) // a standard connector has this type
	}
	return d
}

var errNoDestination = errors.New("the plugin has no destination")

// Configure passes the settings to the destination.
func (d *destinationServer) Configure(
	ctx context.Context, req *connectorv2.Destination_Configure_Request,
) (*connectorv2.Destination_Configure_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	return &connectorv2.Destination_Configure_Response{},
		d.destination.Configure(sdk.WithEnv(ctx, d.env), req.GetConfig())
}

// Open prepares for writing.
func (d *destinationServer) Open(
	ctx context.Context, _ *connectorv2.Destination_Open_Request,
) (*connectorv2.Destination_Open_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	return &connectorv2.Destination_Open_Response{}, d.destination.Open(sdk.WithEnv(ctx, d.env))
}

// run receives records and answers each one until the host closes the stream.
func (d *destinationServer) run(stream grpc.ServerStream) (err error) {
	if d.destination == nil {
		return errNoDestination
	}
	defer func() { d.endOnce.Do(func() { d.failure = err; close(d.ended) }) }()
	ctx, cancel := context.WithCancel(sdk.WithEnv(stream.Context(), d.env))
	written := make(chan error, 1)
	answers := &answers{stream: stream, broken: make(chan error, 1)}
	d.ran.Go(func() { written <- d.writeAll(ctx, stream, answers) })
	defer cancel()
	select {
	case err := <-written:
		return streamError(err)
	case err := <-answers.broken:
		return streamError(err)
	case <-d.torn:
		return nil
	}
}

func (d *destinationServer) writeAll(ctx context.Context, stream grpc.ServerStream, answers *answers) error {
	for {
		var f Frame
		err := stream.RecvMsg(&f)
		switch {
		case errors.Is(err, io.EOF): // no more records
			return errors.Join(d.flush(ctx), answers.failure())
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		b, err := record.NewEncodedBatch(f)
		if err != nil {
			return err
		}
		if b.Len() == 0 {
			continue
		}
		if err := d.write(ctx, b, answers); err != nil {
			return err
		}
	}
}

func (d *destinationServer) write(ctx context.Context, b *record.Batch, answers *answers) error {
	last := bytes.Clone(b.Position(b.Len() - 1))
	answers.expect(b)
	records, err := b.Records()
	if err != nil {
		return err
	}
	d.calls.Lock()
	defer d.calls.Unlock()
	err = d.destination.WriteAsync(ctx, records, answers.settled)
	if err = errors.Join(err, answers.failure()); err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	d.setLast(last)
	return nil
}

func (d *destinationServer) setLast(p record.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = p
	close(d.moved)
	d.moved = make(chan struct{})
}

func (d *destinationServer) flush(ctx context.Context) error {
	d.calls.Lock()
	defer d.calls.Unlock()
	return d.destination.Flush(ctx)
}

// stopTimeout limits Stop, and the time that Teardown waits for the connector. Hosts may wait for either without a
// limit.
const stopTimeout = time.Minute

var errStopTimeout = fmt.Errorf("it did not return within %v", stopTimeout)

// Stop returns when the record at the last position, and all before it, are answered. It also returns if that is no
// longer possible, because Run has failed or takes too long.
func (d *destinationServer) Stop(
	ctx context.Context, req *connectorv2.Destination_Stop_Request,
) (*connectorv2.Destination_Stop_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, errStopTimeout)
	defer cancel()
	flushed := make(chan error, 1)
	go func() { flushed <- d.flushAt(ctx, req.GetLastPosition()) }()
	var err error
	select {
	case err = <-flushed:
	case <-d.ended:
		err = d.failure
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot flush written records: %w", err)
	}
	return &connectorv2.Destination_Stop_Response{}, nil
}

// flushAt waits until the record at the position was received, and flushes.
func (d *destinationServer) flushAt(ctx context.Context, last record.Position) error {
	for {
		d.mu.Lock()
		reached, moved := bytes.Equal(d.last, last), d.moved
		d.mu.Unlock()
		if reached {
			return d.flush(sdk.WithEnv(ctx, d.env))
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Teardown ends the destination.
func (d *destinationServer) Teardown(
	ctx context.Context, _ *connectorv2.Destination_Teardown_Request,
) (*connectorv2.Destination_Teardown_Response, error) {
	d.tearOnce.Do(func() { close(d.torn) })
	if d.destination == nil {
		return &connectorv2.Destination_Teardown_Response{}, nil
	}
	if err := waitRun(ctx, &d.ran); err != nil {
		return nil, fmt.Errorf("cannot tear down: the connector is still writing: %w", err)
	}
	return &connectorv2.Destination_Teardown_Response{}, d.destination.Teardown(sdk.WithEnv(ctx, d.env))
}

// waitRun waits for the goroutines that Run started.
func waitRun(ctx context.Context, ran *sync.WaitGroup) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, errStopTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() { ran.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// LifecycleOnCreated is called before the first Open.
func (d *destinationServer) LifecycleOnCreated(
	ctx context.Context, req *connectorv2.Destination_Lifecycle_OnCreated_Request,
) (*connectorv2.Destination_Lifecycle_OnCreated_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	return &connectorv2.Destination_Lifecycle_OnCreated_Response{},
		d.destination.LifecycleOnCreated(sdk.WithEnv(ctx, d.env), req.GetConfig())
}

// LifecycleOnUpdated is called before the first Open with other settings.
func (d *destinationServer) LifecycleOnUpdated(
	ctx context.Context, req *connectorv2.Destination_Lifecycle_OnUpdated_Request,
) (*connectorv2.Destination_Lifecycle_OnUpdated_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	return &connectorv2.Destination_Lifecycle_OnUpdated_Response{},
		d.destination.LifecycleOnUpdated(sdk.WithEnv(ctx, d.env), req.GetConfigBefore(), req.GetConfigAfter())
}

// LifecycleOnDeleted is called after the connector was deleted.
func (d *destinationServer) LifecycleOnDeleted(
	ctx context.Context, req *connectorv2.Destination_Lifecycle_OnDeleted_Request,
) (*connectorv2.Destination_Lifecycle_OnDeleted_Response, error) {
	if d.destination == nil {
		return nil, errNoDestination
	}
	return &connectorv2.Destination_Lifecycle_OnDeleted_Response{},
		d.destination.LifecycleOnDeleted(sdk.WithEnv(ctx, d.env), req.GetConfig())
}

// answers sends one ack per record, in the order of the records.
type answers struct {
	stream grpc.ServerStream
	broken chan error // capacity 1: error of a destination that broke outside of a call

	mu      sync.Mutex
	waiting []record.Positions // guarded by mu
	next    int                // guarded by mu: index in waiting[0]
	err     error              // guarded by mu: error of sending an answer
}

func (a *answers) expect(b *record.Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, record.PositionsOf(b))
}

// settled answers the next n records.
func (a *answers) settled(n int, err error) {
	if n == 0 {
		a.broken <- fmt.Errorf("cannot write: %w", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if err != nil {
		if text = strings.ToValidUTF8(err.Error(), "?"); text == "" {
			text = "refused" // an empty text would mean that it was written
		}
	}
	var f Frame
	for ; n > 0 && len(a.waiting) > 0; n-- {
		f = AppendAck(f, Ack{Position: a.waiting[0].At(a.next), Error: text})
		if a.next++; a.next == a.waiting[0].Len() {
			a.waiting, a.next = a.waiting[1:], 0
		}
	}
	if n > 0 && a.err == nil {
		a.err = errors.New("the connector settled more records than it received")
	}
	if len(f) > 0 && a.err == nil {
		a.err = a.stream.SendMsg(f)
	}
}

func (a *answers) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}
