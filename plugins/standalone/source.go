package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// Source is a source connector in its own process. Read, Ack and Stop may be
// called concurrently with each other, but not with themselves.
type Source struct {
	instance
	stream *stream

	read     record.Position   // owned by Read: last position returned
	late     []record.Position // owned by Read: positions returned since Stop began
	end      record.Position   // last position to return; set before stopped is closed
	lent     int               // owned by Read: bytes of large messages returned without a release of their space
	rest     wire.Frame        // owned by Read: messages, starting with the next record
	refused  error             // owned by Read: error of the next record
	stopping chan struct{}     // closed when Stop begins
	stopped  chan struct{}     // closed when Stop knows the last position
}

func newSource(c *instance) *Source {
	return &Source{instance: *c, stopping: make(chan struct{}), stopped: make(chan struct{})}
}

// LargestRead returns the maximum number of bytes of the first Read, because no more is received before it.
func (s *Source) LargestRead() int { return s.client.maxReceive() }

// Open prepares for reading after pos, or from the beginning if pos is empty.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	if err = s.open(ctx, pos); err != nil {
		return err
	}
	s.lent = receivedAheadBytes
	s.stream, err = s.openStream(int64(s.lent))
	return err
}

// maxRead limits the bytes that one Read gathers from received messages.
const maxRead = 1 << 20

// Read returns the next batch, made of the received messages. The batch is never empty. Read returns io.EOF after Stop
// once all records were returned.
func (s *Source) Read(ctx context.Context) (*record.Batch, error) {
	for s.refused == nil {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		var b *record.Batch
		if b, s.refused = s.batch(); b == nil {
			break
		}
		if b.Len() > 0 {
			return b, nil
		}
	}
	s.stream.cancel()
	return nil, fmt.Errorf("cannot read from connector %s: %w", s.id, s.refused)
}

// fill ensures that the rest is not empty. It waits for a message if necessary.
func (s *Source) fill(ctx context.Context) error {
	if len(s.rest) > 0 && s.atEnd() { // later records of the source are ignored
		return io.EOF
	}
	for len(s.rest) == 0 {
		if ctx.Err() != nil { // messages without records may never end
			s.stream.cancel()
			return context.Cause(ctx)
		}
		s.makeSpace()
		f, err := s.next(ctx)
		if err != nil {
			return err
		}
		s.rest = s.gather(f)
	}
	return nil
}

// take releases the space of f, a received message. The space of a large message is released by the next Read, when the
// window has room. So there is one large message at a time.
func (s *Source) take(f wire.Frame) {
	if len(f) > receivedAheadBytes {
		s.lent += len(f)
		return
	}
	s.stream.release(f)
}

func (s *Source) makeSpace() {
	if s.lent > 0 {
		s.stream.makeSpace(s.lent)
		s.lent = 0
	}
}

// next waits for a message.
func (s *Source) next(ctx context.Context) (wire.Frame, error) {
	if s.atEnd() { // records that the source reads later are ignored
		return nil, io.EOF
	}
	select { // received messages come first
	case f, ok := <-s.stream.received:
		s.take(f)
		return f, s.ended(ok)
	default:
	}
	stopped := s.stopped
	var quiet <-chan time.Time
	for {
		select {
		case f, ok := <-s.stream.received:
			s.take(f)
			if s.atEnd() { // it was returned in the meantime
				return nil, io.EOF
			}
			return f, s.ended(ok)
		case <-ctx.Done():
			s.stream.cancel()
			return nil, context.Cause(ctx)
		case <-stopped:
			if s.complete() {
				return nil, io.EOF
			}
			stopped, quiet = nil, time.After(s.client.quietTimeout())
		case <-quiet:
			s.log.Warn("source did not return its last position; records after the checkpoint will be read again")
			return nil, io.EOF
		}
	}
}

// atEnd reports whether the last position was returned. More records may have been returned before Stop learned the
// last position.
func (s *Source) atEnd() bool {
	if !isClosed(s.stopped) || len(s.end) == 0 {
		return false
	}
	return bytes.Equal(s.end, s.read) || slices.ContainsFunc(s.late, s.isEnd)
}

func (s *Source) isEnd(p record.Position) bool { return bytes.Equal(s.end, p) }

// upToEnd returns how many of the first n records of b are not after the last position. While Stop does not know the
// last position, upToEnd remembers the returned positions.
func (s *Source) upToEnd(b *record.Batch, n int) int {
	if isClosed(s.stopped) {
		if s.atEnd() { // Stop learned it after these were received
			return 0
		}
		for i := range n {
			if len(s.end) > 0 && s.isEnd(b.Position(i)) {
				return i + 1
			}
		}
		return n
	}
	if isClosed(s.stopping) {
		s.late = append(s.late, s.read)
		for i := range n {
			s.late = append(s.late, bytes.Clone(b.Position(i)))
		}
	}
	return n
}

// complete reports whether everything that was read before Stop was returned.
func (s *Source) complete() bool {
	return len(s.stream.received) == 0 && bytes.Equal(s.end, s.read)
}

// ended returns nil if a message was received (ok), or the reason why there are no more. Plugins may end the stream
// after Stop.
func (s *Source) ended(ok bool) error {
	if ok {
		return nil
	}
	if errors.Is(s.stream.err, io.EOF) && isClosed(s.stopping) {
		return io.EOF
	}
	return fmt.Errorf("cannot read from connector %s: %w", s.id, s.stream.failure())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// gather appends the waiting messages to f. Messages with repeated fields are joined by joining their bytes.
func (s *Source) gather(f wire.Frame) wire.Frame {
	for len(f) < maxRead {
		select {
		case g, ok := <-s.stream.received:
			if !ok {
				return f
			}
			f = slices.Grow(f, int(min(s.stream.queued.Load(), maxRead))) // room for the following messages, too
			s.take(g)
			f = append(f, g...)
			continue
		default:
		}
		break
	}
	return f
}

// limits returns the limits of a batch.
func (s *Source) limits() record.Limits {
	return record.Limits{Records: maxRecords, Metadata: record.MaxMetadata,
		Memory: max(minMemory, decodedFactor*s.client.maxReceive())}
}

// batch returns the leading records of the rest up to the first invalid one, and its error. It returns nil
// when no record precedes it.
func (s *Source) batch() (*record.Batch, error) {
	b, n, err := record.ReadBatch(s.rest, s.limits())
	if err != nil && b.Len() == 0 {
		return nil, err
	}
	if s.rest = s.rest[n:]; b.Len() == 0 {
		return b, nil
	}
	good, positionErr := check(b)
	if positionErr != nil {
		err = positionErr
	}
	if good == 0 {
		return nil, err
	}
	if n := s.upToEnd(b, good); n < good {
		good, err = n, nil // no Read follows
	}
	if good == 0 {
		return b.Slice(0, 0), nil
	}
	if good < b.Len() {
		b = b.Slice(0, good)
	}
	b.SetMetadataDefault(record.KeyReadAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	b.SetMetadataDefault(record.KeySourceConnectorID, s.id)
	s.read = bytes.Clone(b.Position(good - 1))
	return b, err
}

// check returns the number of leading records of b with a valid position, and the error of the next one.
func check(b *record.Batch) (int, error) {
	for i := range b.Len() {
		switch n := len(b.Position(i)); {
		case n == 0:
			return i, fmt.Errorf("record %d of %d has no position", i+1, b.Len())
		case n > record.MaxPosition:
			return i, fmt.Errorf("the position of record %d of %d has %d bytes, more than %d", i+1, b.Len(), n,
				record.MaxPosition)
		}
	}
	return b.Len(), nil
}

// maxAcks limits the number of positions in one message.
const maxAcks = 1000

// Ack reports that the records at these positions are settled, in the order read. A plugin that ended its side after
// Stop receives no acknowledgement; it reads those records again.
func (s *Source) Ack(ctx context.Context, positions []record.Position) error {
	n := maxAcks
	if s.p.version == wire.Version1 {
		n = 1
	}
	for len(positions) > 0 {
		k := s.ackable(positions[:min(n, len(positions))])
		if err := s.stream.send(ctx, wire.AppendPositions(nil, positions[:k])); err != nil {
			if isClosed(s.stream.ended) && errors.Is(s.stream.err, io.EOF) && isClosed(s.stopping) {
				return nil
			}
			return fmt.Errorf("cannot acknowledge to connector %s: %w", s.id, err)
		}
		positions = positions[k:]
	}
	return nil
}

// ackable returns the number of positions that fit into a message, at least one.
func (s *Source) ackable(positions []record.Position) int {
	size := 0
	for i, p := range positions {
		if size += len(p) + 8; size > s.client.maxMessage() && i > 0 {
			return i
		}
	}
	return len(positions)
}

// Stop ends reading. Read returns the records read before Stop, then io.EOF.
func (s *Source) Stop(ctx context.Context) error {
	if isClosed(s.stopping) {
		return nil
	}
	close(s.stopping)
	defer close(s.stopped)
	var resp connectorv2.Source_Stop_Response
	err := s.call(ctx, "Stop", s.client.stopTimeout(), &connectorv2.Source_Stop_Request{}, &resp)
	if s.end = resp.GetLastPosition(); err != nil {
		s.log.Warn("source did not stop on request", "err", err)
	}
	return nil
}

// Teardown ends the connector and its process.
func (s *Source) Teardown(ctx context.Context) error {
	if s.stream != nil {
		s.stream.close()
	}
	return s.teardown(ctx)
}
