package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// subscriber is a source that subscribes to subjects. Messages published while it is not connected are lost. It replies
// to no message: if the subject belongs to a stream, a reply would acknowledge the message.
type subscriber struct {
	settings *sourceSettings
	log      *slog.Logger
	numbers  common.Numbers // owned by read
	latest   progress.Latest
	skips    progress.Skips // safe for concurrent use

	mu      sync.Mutex
	queue   []*client.Msg // guarded by mu
	bytes   int64         // guarded by mu: size of queue
	buffer  sdk.Buffer    // memory budget of the host for queue
	err     error         // guarded by mu: why receiving has ended
	arrived notify.Signal // queue or err has changed

	cancel context.CancelFunc // nil before open
	done   chan struct{}
}

func (s *subscriber) open(ctx context.Context, pos record.Position) (err error) {
	if s.numbers, err = common.NewNumbers(pos); err != nil {
		return err
	}
	s.buffer = sdk.NewBuffer(ctx)
	s.log, s.arrived, s.done = sdk.Logger(ctx), notify.NewSignal(), make(chan struct{})
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.run(ctx)
	return nil
}

func (s *subscriber) run(ctx context.Context) {
	defer close(s.done)
	common.Repeat(ctx, func(works func()) error { return s.session(ctx, works) }, func(err error) bool {
		if errors.As(err, new(deniedError)) || sdk.Panicked(err) {
			s.fail(err)
			return false
		}
		s.latest.Note("messages were missed: " + err.Error())
		s.log.Warn("cannot receive, reconnecting; messages published in the meantime are lost", "err", err)
		return true
	})
}

// session receives over one connection.
func (s *subscriber) session(ctx context.Context, connected func()) (err error) {
	c, err := s.settings.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		err = c.explain(err)
		c.Close()
	}()
	const wait = 8192 // queued messages; the client drops more
	messages := make(chan *client.Msg, wait)
	for _, subject := range s.settings.Subjects {
		if _, err := c.ChanQueueSubscribe(subject, s.settings.Queue, messages); err != nil {
			return deniedError{fmt.Errorf("cannot subscribe to %q: %w", subject, err)}
		}
	}
	if err := c.FlushTimeout(s.settings.Timeout); err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	connected()
	s.latest.Note("")
	for {
		select {
		case m := <-messages:
			if _, cut := m.Header[peer.LeftOut]; cut {
				s.leaveOut("message with subject " + record.ValidName(m.Subject))
				continue
			}
			s.put(m)
		case <-c.lost:
			if err := c.LastError(); isDenied(err) {
				return deniedError{err}
			}
			return c.failure()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var (
	errHeaders = errors.New("it has more than 100,000 headers")
	errFast    = errors.New("they arrive faster than the pipeline writes them")
)

// leaveOut reports a message with too many headers. Streams refuse such messages.
func (s *subscriber) leaveOut(what string) {
	if s.skips.Add(what, errHeaders) {
		s.log.Warn("skipping a message", "what", what, "err", errHeaders)
	}
}

// put queues a message, or drops it when the queue is full.
func (s *subscriber) put(m *client.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(len(m.Subject)+len(m.Data)) + sizeOf(m.Header)
	if s.bytes+size > s.settings.BufferSize && len(s.queue) > 0 || !s.buffer.Take(int(size)) {
		s.latest.Note("messages were dropped because they arrive faster than the pipeline writes them")
		s.skips.Add("messages with subject "+record.ValidName(m.Subject), errFast)
		return
	}
	s.queue, s.bytes = append(s.queue, m), s.bytes+size
	s.arrived.Notify()
}

// fail makes read return err after the queued messages.
func (s *subscriber) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.arrived.Notify()
}

func (s *subscriber) read(ctx context.Context) ([]record.Record, error) {
	for {
		s.mu.Lock()
		messages, err := s.queue, s.err
		s.buffer.Add(-int(s.bytes))
		s.queue, s.bytes = nil, 0
		s.mu.Unlock()
		if len(messages) > 0 {
			return s.records(messages), nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *subscriber) records(messages []*client.Msg) []record.Record {
	records := make([]record.Record, len(messages))
	for i, m := range messages {
		r := record.Record{Operation: record.OperationCreate, After: record.Raw(m.Data)}
		metadata(&r, m.Subject, m.Header, time.Time{})
		r.Position = s.numbers.Next()
		records[i] = r
	}
	return records
}

func (s *subscriber) ack(int) {}

func (s *subscriber) close() {
	ended(s.cancel, s.done)
	if s.buffer != nil {
		s.buffer.Close()
	}
}

func (s *subscriber) progress() progress.Report {
	r := s.latest.Report()
	r.Skipped = s.skips.List()
	return r
}
