package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// stream is the Run call of a connector. Its messages stay encoded.
type stream struct {
	conn   *connector
	grpc   grpc.ClientStream
	cancel context.CancelFunc
	ctx    context.Context // of the call: ends with cancel

	received chan frame    // closed after the last message
	ended    chan struct{} // closed with received
	err      error         // why it ended, set before it is closed

	closeOnce sync.Once
}

// receivedAhead is the number of messages that are taken off the connection before
// they are asked for. Many sources send one record per message.
const receivedAhead = 256

func (c *connector) openStream() (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	g, err := c.p.conn.NewStream(ctx, desc, c.method("Run"))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot run connector %s: %w", c.id, c.p.explain(err))
	}
	s := &stream{conn: c, grpc: g, ctx: ctx, cancel: cancel,
		received: make(chan frame, receivedAhead), ended: make(chan struct{})}
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
		select {
		case s.received <- f:
		case <-s.ctx.Done():
			s.err = s.ctx.Err()
			return
		}
	}
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
		case _, ok := <-s.received:
			if ok {
				continue
			}
		case <-timer.C:
		}
		break
	}
	s.cancel()
	<-s.ended
}
