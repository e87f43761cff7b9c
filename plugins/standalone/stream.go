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

	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/notify"
	"google.golang.org/grpc"
)

// stream is the Run call of a connector. Its messages stay encoded.
type stream struct {
	conn   *instance
	grpc   grpc.ClientStream
	cancel context.CancelFunc
	ctx    context.Context // of the call: ends with cancel

	received chan wire.Frame // closed after the last message; the receiver of one calls release
	queued   atomic.Int64    // bytes in received
	freed    notify.Signal   // something was taken
	over     chan struct{}   // closed by send when it finds that the stream has ended
	ended    chan struct{}   // closed when it is known why, which may be before received is
	err      error           // why it ended, set before ended is closed

	closeOnce sync.Once
}

// receivedAhead is the number of messages that are taken off the connection before
// they are asked for. Many sources send one record per message.
const receivedAhead = 256

// receivedAheadBytes bounds them by size: once there are as many, no more are received. A
// greater message still passes.
const receivedAheadBytes = 1 << 20

// openStream begins the Run call. taken is how much of the space for messages is not there
// until makeSpace is called.
func (c *instance) openStream(taken int64) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	g, err := c.p.conn.NewStream(ctx, desc, c.method("Run"))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot run connector %s: %w", c.id, c.p.explain(err))
	}
	s := &stream{conn: c, grpc: g, ctx: ctx, cancel: cancel,
		received: make(chan wire.Frame, receivedAhead), freed: notify.NewSignal(), over: make(chan struct{}), ended: make(chan struct{})}
	s.queued.Store(taken)
	go s.receive()
	return s, nil
}

// receive queues messages until the stream ends, each received when there is space. A send that finds the stream ended waits
// for the reason, and its caller may be the one that makes space in the queue. So, when over
// is closed, receive takes the messages that are left, which flow control bounds, to reach
// the reason before it queues them.
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

// queue waits until f is queued. It returns false when the stream is cancelled or over is
// closed first.
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

// release makes space for as much as f, which was taken from received.
func (s *stream) release(f wire.Frame) { s.makeSpace(len(f)) }

func (s *stream) makeSpace(n int) {
	s.queued.Add(-int64(n))
	s.freed.Notify()
}

// send sends a message, which then belongs to the stream. When ctx ends first, the
// stream is broken.
func (s *stream) send(ctx context.Context, f wire.Frame) error {
	defer context.AfterFunc(ctx, s.cancel)()
	err := s.grpc.SendMsg(f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF): // the reason is on the receiving side
		if !isClosed(s.over) {
			close(s.over)
		}
		<-s.ended
		return s.failure()
	}
	return wire.PlainError(err)
}

// failure says why the stream has ended.
func (s *stream) failure() error {
	if errors.Is(s.err, io.EOF) {
		return errors.New("the plugin ended the stream")
	}
	return s.conn.p.meant(s.err, s.grpc.Trailer())
}

// half closes our side: the plugin sees that nothing more will come.
func (s *stream) half() { s.closeOnce.Do(func() { _ = s.grpc.CloseSend() }) }

// close ends the stream and returns when it has ended.
func (s *stream) close() {
	s.half()
	s.makeSpace(math.MaxInt32) // what is received now is dropped
	timer := time.NewTimer(streamEndTimeout)
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
