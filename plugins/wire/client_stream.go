package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// stream is the Run call of a connector. Its messages stay encoded.
type stream struct {
	conn   *connector
	grpc   grpc.ClientStream
	cancel context.CancelFunc
	ctx    context.Context // of the call: ends with cancel

	received chan frame    // closed after the last message; who takes one says so with took
	queued   atomic.Int64  // bytes in received
	room     chan struct{} // capacity 1: something was taken
	ended    chan struct{} // closed with received
	err      error         // why it ended, set before it is closed

	closeOnce sync.Once
}

// receivedAhead is the number of messages that are taken off the connection before
// they are asked for. Many sources send one record per message.
const receivedAhead = 256

// receivedAheadBytes bounds them by size. A greater message still passes, alone.
const receivedAheadBytes = 1 << 20

func (c *connector) openStream() (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	g, err := c.p.conn.NewStream(ctx, desc, c.method("Run"))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot run connector %s: %w", c.id, c.p.explain(err))
	}
	s := &stream{conn: c, grpc: g, ctx: ctx, cancel: cancel,
		received: make(chan frame, receivedAhead), room: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.receive()
	return s, nil
}

func (s *stream) receive() {
	defer close(s.ended)
	defer close(s.received)
	for {
		var f frame
		if err := s.grpc.RecvMsg(&f); err != nil {
			s.err = err
			return
		}
		if !s.waitForRoom(len(f)) {
			s.err = s.ctx.Err()
			return
		}
		select {
		case s.received <- f:
		case <-s.ctx.Done():
			s.err = s.ctx.Err()
			return
		}
	}
}

// waitForRoom waits until a message of size bytes may be queued. It returns false when
// the stream is over first.
func (s *stream) waitForRoom(size int) bool {
	for n := s.queued.Load(); n > 0 && n+int64(size) > receivedAheadBytes; n = s.queued.Load() {
		select {
		case <-s.room:
		case <-s.ctx.Done():
			return false
		}
	}
	s.queued.Add(int64(size))
	return true
}

// took tells that f was taken from received.
func (s *stream) took(f frame) {
	s.queued.Add(-int64(len(f)))
	notify(s.room)
}

// send sends a message, which then belongs to the stream. When ctx ends first, the
// stream is broken.
func (s *stream) send(ctx context.Context, f frame) error {
	defer context.AfterFunc(ctx, s.cancel)()
	err := s.grpc.SendMsg(f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF): // the reason is on the receiving side
		<-s.ended
		return s.failure()
	}
	return plainError(err)
}

// failure says why the stream has ended.
func (s *stream) failure() error {
	if errors.Is(s.err, io.EOF) {
		return errors.New("the plugin ended the stream")
	}
	return s.conn.p.explain(s.err)
}

// half closes our side: the plugin sees that nothing more will come.
func (s *stream) half() { s.closeOnce.Do(func() { _ = s.grpc.CloseSend() }) }

// close ends the stream and returns when it has ended.
func (s *stream) close() {
	s.half()
	timer := time.NewTimer(streamEndTimeout)
	defer timer.Stop()
	for {
		select {
		case f, ok := <-s.received:
			if ok {
				s.took(f)
				continue
			}
		case <-timer.C:
		}
		break
	}
	s.cancel()
	<-s.ended
}
