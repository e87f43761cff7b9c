package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/notify"
)

// stream is the Run call of a connector. Its messages stay encoded.
type stream struct {
	conn   *instance
	grpc   grpc.ClientStream
	cancel context.CancelFunc
	ctx    context.Context // context of the call: ends with cancel

	received chan wire.Frame // closed after the last message; the receiver of a message calls release
	queued   atomic.Int64    // bytes in received
	freed    notify.Signal   // space was released
	over     chan struct{}   // closed by send when it notices the end of the stream
	ended    chan struct{}   // closed when the reason for the end is known, maybe before received is
	err      error           // reason for the end, set before ended is closed

	closeOnce sync.Once
}

// receivedAhead is the maximum number of messages received before Read asks for them. Many sources send one record per
// message.
const receivedAhead = 256

// receivedAheadBytes is their maximum size in bytes: at this size, no more are received. A single larger message still
// passes.
const receivedAheadBytes = 1 << 20

// openStream begins the Run call. taken is the part of the space for messages, in bytes, that is unavailable until
// makeSpace is called.
func (c *instance) openStream(taken int64) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	g, err := c.p.conn.NewStream(ctx, desc, c.method("Run"))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot run connector %s: %w", c.id, c.p.explain(err))
	}
	s := &stream{conn: c, grpc: g, ctx: ctx, cancel: cancel,
		received: make(chan wire.Frame, receivedAhead), freed: notify.NewSignal(), over: make(chan struct{}),
		ended: make(chan struct{})}
	s.queued.Store(taken)
	go s.receive()
	return s, nil
}

// receive queues messages until the stream ends. It receives a message when there is space. A send that finds the
// stream ended waits for the reason, and its caller may be the one that releases space. So, when over is closed,
// receive reads the remaining messages, which flow control limits, to learn the reason before it queues them.
func (s *stream) receive() {
	defer close(s.received)
	var left []wire.Frame
	for {
		if len(left) == 0 {
			s.waitForSpace()
		}
		var f wire.Frame
		if s.err = s.grpc.RecvMsg(&f); s.err != nil {
			break
		}
		if len(left) > 0 || !s.queue(f, s.over) {
			left = append(left, f)
		}
	}
	close(s.ended)
	for _, f := range left {
		if !s.queue(f, nil) {
			return
		}
	}
}

// waitForSpace waits until another message may be received.
func (s *stream) waitForSpace() {
	for s.queued.Load() >= receivedAheadBytes {
		select {
		case <-s.freed:
		case <-s.over:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// queue waits until f is queued. It returns false if the stream is cancelled or over is closed first.
func (s *stream) queue(f wire.Frame, over <-chan struct{}) bool {
	size := int64(len(f))
	s.queued.Add(size)
	select {
	case s.received <- f:
		return true
	case <-over:
	case <-s.ctx.Done():
	}
	s.queued.Add(-size)
	return false
}

// release releases the space of f, which was taken from received.
func (s *stream) release(f wire.Frame) { s.makeSpace(len(f)) }

func (s *stream) makeSpace(n int) {
	s.queued.Add(-int64(n))
	s.freed.Notify()
}

// send sends a message, which then belongs to the stream. If ctx ends first, the stream is broken.
func (s *stream) send(ctx context.Context, f wire.Frame) error {
	defer context.AfterFunc(ctx, s.cancel)()
	err := s.grpc.SendMsg(f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF): // the receiving side has the reason
		if !isClosed(s.over) {
			close(s.over)
		}
		<-s.ended
		return s.failure()
	}
	return wire.PlainError(err)
}

// failure returns the reason for the end of the stream.
func (s *stream) failure() error {
	if errors.Is(s.err, io.EOF) {
		return errors.New("the plugin ended the stream")
	}
	return s.conn.p.meant(s.err, s.grpc.Trailer())
}

// half closes the host's side: the plugin learns that nothing more will come.
func (s *stream) half() { s.closeOnce.Do(func() { _ = s.grpc.CloseSend() }) }

// close ends the stream and returns when it has ended.
func (s *stream) close() {
	s.half()
	s.makeSpace(math.MaxInt32) // messages received from now on are dropped
	timer := time.NewTimer(s.conn.p.ends.stream)
	defer timer.Stop()
	for {
		select {
		case f, ok := <-s.received:
			if ok {
				s.release(f)
				continue
			}
		case <-timer.C:
		}
		break
	}
	s.cancel()
	for range s.received { // until receive has ended
	}
}
