package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/grpc"
)

// sourceServer serves one source to one host.
type sourceServer struct {
	connectorv2.UnimplementedSourcePluginServer
	env     *sdk.Env
	source  sdk.Source // nil: the connector is not a source
	schemas *schema.Cache

	reading  context.Context // context of Read; ends with Stop
	stop     context.CancelFunc
	torn     chan struct{} // closed by Teardown
	tearOnce sync.Once

	mu      sync.Mutex
	started bool            // guarded by mu: Run was called
	last    record.Position // guarded by mu: position of the last sent record
	read    chan struct{}   // closed when reading has ended
	ran     sync.WaitGroup  // goroutines that Run started
}

func newSourceServer(c sdk.Connector, env *sdk.Env) *sourceServer {
	s := &sourceServer{env: env, schemas: cacheOf(env), torn: make(chan struct{}), read: make(chan struct{})}
	s.reading, s.stop = context.WithCancel(sdk.WithEnv(context.Background(), env))
	if c.NewSource != nil {
		s.source = c.NewSource()
	}
	return s
}

var errNoSource = errors.New("the plugin has no source")

// Configure passes the settings to the source.
func (s *sourceServer) Configure(
	ctx context.Context, req *connectorv2.Source_Configure_Request,
) (*connectorv2.Source_Configure_Response, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	return &connectorv2.Source_Configure_Response{}, s.source.Configure(sdk.WithEnv(ctx, s.env), req.GetConfig())
}

// Open prepares for reading.
func (s *sourceServer) Open(
	ctx context.Context, req *connectorv2.Source_Open_Request,
) (*connectorv2.Source_Open_Response, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	return &connectorv2.Source_Open_Response{}, s.source.Open(sdk.WithEnv(ctx, s.env), req.GetPosition())
}

// run sends records and receives acknowledgements until the host closes the stream.
func (s *sourceServer) run(stream grpc.ServerStream) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.ran.Done()
	defer s.stop()
	read, acked := make(chan error, 1), make(chan error, 1)
	s.ran.Go(func() { read <- s.send(stream); close(s.read) })
	s.ran.Go(func() { acked <- s.ack(stream) })
	select {
	case err := <-read:
		if err != nil {
			return err
		}
	case err := <-acked:
		return err
	case <-s.torn:
		return nil
	}
	select { // stopped, but acknowledgements still arrive
	case err := <-acked:
		return err
	case <-s.torn:
		return nil
	}
}

func (s *sourceServer) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.source == nil:
		return errNoSource
	case s.started:
		return errors.New("the source is already running")
	}
	s.started = true
	s.ran.Add(1)
	return nil
}

// send sends the records that the source reads until it is stopped.
func (s *sourceServer) send(stream grpc.ServerStream) error {
	for {
		records, err := s.source.Read(s.reading)
		if len(records) > 0 {
			if err := s.sendRecords(stream, records); err != nil && s.reading.Err() == nil {
				return err
			} // unsent records are read again by the next run
		}
		switch {
		case s.reading.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("cannot read: %w", err)
		}
	}
}

func (s *sourceServer) sendRecords(stream grpc.ServerStream, records []record.Record) error {
	fillMetadata(records)
	for i := range records {
		if len(records[i].Position) == 0 {
			return errors.New("cannot send a record without a position")
		}
		if s.schemas == nil {
			continue
		}
		if err := s.schemas.EncodeRecord(s.reading, &records[i], schema.Parts{Key: true, Payload: true}); err != nil {
			return fmt.Errorf("cannot send record %q: %w", records[i].Position, err)
		}
	}
	return s.sendBatch(stream, record.NewBatch(records))
}

// sendBatch sends a batch in parts that every host accepts, unless a single record is too large.
func (s *sourceServer) sendBatch(stream grpc.ServerStream, b *record.Batch) error {
	size := b.Size() + 100*b.Len()
	if n := b.Len(); size > DefaultMaxMessage && n > 1 {
		if err := s.sendBatch(stream, b.Slice(0, n/2)); err != nil {
			return err
		}
		return s.sendBatch(stream, b.Slice(n/2, n))
	}
	f, err := b.AppendWire(make(Frame, 0, size), 0, b.Len())
	if err != nil { // a record with unsupported values does not end the source
		f, err = encodable(b).AppendWire(f[:0], 0, b.Len())
	}
	if err != nil {
		return err
	}
	if err := stream.SendMsg(Frame(f)); err != nil {
		return err
	}
	s.mu.Lock()
	s.last = b.Position(b.Len() - 1)
	s.mu.Unlock()
	return nil
}

// encodable returns the batch with records that have a wire form.
func encodable(b *record.Batch) *record.Batch {
	records, _ := b.Records() // they are decoded already
	all := make([]record.Record, len(records))
	for i := range records {
		all[i] = records[i].Encodable()
	}
	return record.NewBatch(all)
}

// fillMetadata adds the read time to records without metadata, because some hosts lose additions to empty metadata.
func fillMetadata(records []record.Record) {
	var readAt record.Metadata // shared, and without spare capacity to grow in place
	for i := range records {
		if len(records[i].Metadata) > 0 {
			continue
		}
		if readAt == nil {
			readAt = record.Metadata{{Key: record.KeyReadAt, Value: strconv.FormatInt(time.Now().UnixNano(), 10)}}
		}
		records[i].Metadata = readAt
	}
}

// ack passes acknowledgements to the source until the host closes its side.
func (s *sourceServer) ack(stream grpc.ServerStream) error {
	ctx := sdk.WithEnv(stream.Context(), s.env)
	for {
		var f Frame
		if err := stream.RecvMsg(&f); err != nil {
			if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
				return nil
			}
			return err
		}
		positions, err := ParsePositions(f)
		if err != nil {
			return err
		}
		if len(positions) == 0 {
			continue
		}
		if err := s.source.Ack(ctx, positions); err != nil {
			return fmt.Errorf("cannot acknowledge: %w", err)
		}
	}
}

// Stop ends reading and returns the position of the last record sent.
func (s *sourceServer) Stop(
	ctx context.Context, _ *connectorv2.Source_Stop_Request,
) (*connectorv2.Source_Stop_Response, error) {
	s.stop()
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if started {
		select {
		case <-s.read:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &connectorv2.Source_Stop_Response{LastPosition: s.last}, nil
}

// Teardown ends the source.
func (s *sourceServer) Teardown(
	ctx context.Context, _ *connectorv2.Source_Teardown_Request,
) (*connectorv2.Source_Teardown_Response, error) {
	s.stop()
	s.tearOnce.Do(func() { close(s.torn) })
	if s.source == nil {
		return &connectorv2.Source_Teardown_Response{}, nil
	}
	if err := waitRun(ctx, &s.ran); err != nil {
		return nil, fmt.Errorf("cannot tear down: the connector is still reading or acknowledging: %w", err)
	}
	return &connectorv2.Source_Teardown_Response{}, s.source.Teardown(sdk.WithEnv(ctx, s.env))
}

// LifecycleOnCreated is called before the first Open.
func (s *sourceServer) LifecycleOnCreated(
	ctx context.Context, req *connectorv2.Source_Lifecycle_OnCreated_Request,
) (*connectorv2.Source_Lifecycle_OnCreated_Response, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	return &connectorv2.Source_Lifecycle_OnCreated_Response{},
		s.source.LifecycleOnCreated(sdk.WithEnv(ctx, s.env), req.GetConfig())
}

// LifecycleOnUpdated is called before the first Open with other settings.
func (s *sourceServer) LifecycleOnUpdated(
	ctx context.Context, req *connectorv2.Source_Lifecycle_OnUpdated_Request,
) (*connectorv2.Source_Lifecycle_OnUpdated_Response, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	return &connectorv2.Source_Lifecycle_OnUpdated_Response{},
		s.source.LifecycleOnUpdated(sdk.WithEnv(ctx, s.env), req.GetConfigBefore(), req.GetConfigAfter())
}

// LifecycleOnDeleted is called when the connector was deleted.
func (s *sourceServer) LifecycleOnDeleted(
	ctx context.Context, req *connectorv2.Source_Lifecycle_OnDeleted_Request,
) (*connectorv2.Source_Lifecycle_OnDeleted_Response, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	return &connectorv2.Source_Lifecycle_OnDeleted_Response{},
		s.source.LifecycleOnDeleted(sdk.WithEnv(ctx, s.env), req.GetConfig())
}
