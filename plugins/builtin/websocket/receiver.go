package websocket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// receiver makes records of the messages of all connections of a source. When the limits are reached it stops reading.
type receiver struct {
	settings *sourceSettings
	log      *slog.Logger
	pending  *common.Requests // each message is a request
	skips    progress.Skips   // safe for concurrent use
	running  sync.WaitGroup
}

// delivery is a message that is not acknowledged.
type delivery struct {
	*common.Request
	size int64
}

var (
	errStopped = errors.New("the pipeline has stopped")
	errTooLong = errors.New("it is longer than message.maxBytes")
)

// serve receives messages until the connection ends, or the source. Then it closes the connection and returns the
// reason. Messages that were received before are still acknowledged, as long as there is a connection.
func (s *receiver) serve(c *conn, metadata record.Metadata) error {
	deliveries := common.NewInbox[delivery]()
	last, stop := context.WithCancel(context.Background())
	settled, ended := make(chan struct{}), make(chan error, 1)
	s.running.Go(func() { defer close(settled); defer stop(); s.settle(last, c, deliveries) })
	s.running.Go(func() {
		err := s.read(c, metadata, deliveries)
		deliveries.Fail(err)
		ended <- err
	})
	select {
	case err := <-ended:
		if errors.Is(err, errTooLong) {
			c.close(statusTooBig, fmt.Sprintf("a message has more than %d bytes", s.settings.MaxMessage))
		}
		c.drop()
		return err
	case <-s.pending.Closed():
		late := time.AfterFunc(closeTime, func() { _ = c.under.Close() })
		stop()
		<-settled // the last acknowledgement goes out before the close frame
		late.Stop()
		c.close(statusLeaving, errStopped.Error())
		return errStopped
	}
}

// read passes messages on to the pipeline.
func (s *receiver) read(c *conn, metadata record.Metadata, deliveries *common.Inbox[delivery]) error {
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		err = s.take(c, m, metadata, deliveries)
		if m.cancel(); err != nil {
			return err
		}
	}
}

// headSize is the number of bytes of a message that are read before there is room for it. The size of most messages is
// then known.
const headSize = 4 << 10

// take passes a message on when there is room for it.
func (s *receiver) take(c *conn, m *message, metadata record.Metadata, deliveries *common.Inbox[delivery]) error {
	limit := s.settings.MaxMessage
	head := min(headSize, limit+1)
	text, err := c.receive(m, head)
	size := int64(len(text))
	switch {
	case err != nil:
		return err
	case size > limit:
		return s.leaveOut(c, m)
	case size < head:
		if !s.admit(c, size) {
			return errStopped
		}
	default:
		if !s.admit(c, limit) {
			return errStopped
		}
		rest, err := c.receive(m, limit+1-size)
		text, size = append(text, rest...), size+int64(len(rest))
		if err != nil {
			s.pending.Release(limit)
			return err
		}
		if size > limit {
			s.pending.Release(limit)
			return s.leaveOut(c, m)
		}
		s.pending.Shrink(limit - size)
	}
	deliveries.Lock()
	defer deliveries.Unlock()
	deliveries.Push(delivery{s.pending.Add(newContent(text, m.binary, metadata)), size})
	return nil
}

// admit waits until there is room for a message. It returns false if the source ends before.
func (s *receiver) admit(c *conn, size int64) bool {
	c.paused.Store(true)
	defer c.paused.Store(false)
	return s.pending.AdmitLater(size)
}

// leaveOut handles a message that is too long. A client of this server is disconnected. A server does not repeat
// messages, so that the rest of the message is skipped.
func (s *receiver) leaveOut(c *conn, m *message) error {
	if s.settings.listens() {
		return errTooLong
	}
	if s.skips.Add("messages with more than "+strconv.FormatInt(s.settings.MaxMessage, 10)+" bytes", errTooLong) {
		s.log.Warn("skipping a message", "err", errTooLong)
	}
	return c.skip(m)
}

// settle waits for the acknowledgement of each message, in order, and makes room for others, until ctx or the source
// ends, or all messages of the connection are acknowledged. With the setting acknowledge it sends acknowledgements.
func (s *receiver) settle(ctx context.Context, c *conn, deliveries *common.Inbox[delivery]) {
	var settled atomic.Int64
	changed := notify.NewSignal()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer close(changed)
	if s.settings.Acknowledge == "message" {
		sending.Go(func() { acknowledge(c, &settled, changed) })
	}
	for {
		all, err := deliveries.Take(ctx)
		for _, d := range all {
			if !s.acknowledged(d) {
				return
			}
			s.pending.Release(d.size)
			settled.Add(1)
			changed.Notify()
		}
		deliveries.Lock()
		deliveries.Acknowledged(len(all))
		deliveries.Unlock()
		if err != nil {
			return
		}
	}
}

// acknowledged waits until the message is acknowledged. It returns false if the source ended before.
func (s *receiver) acknowledged(d delivery) bool {
	select {
	case <-d.Done():
		return true
	case <-s.pending.Closed():
	}
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// acknowledge sends the number of acknowledged messages when it has changed. Several acknowledgements become one
// message if the client reads slowly.
func acknowledge(c *conn, settled *atomic.Int64, changed notify.Signal) {
	sent := int64(0)
	for open := true; open; {
		_, open = <-changed
		n := settled.Load()
		if n == sent {
			continue
		}
		if c.send(context.Background(), false, fmt.Appendf(nil, `{"acknowledged":%d}`, n)) != nil {
			return // serve notices that the connection is lost
		}
		sent = n
	}
}

// content is a received message, as the content of a request.
type content struct{ records []record.Record }

func newContent(text []byte, binary bool, shared record.Metadata) *content {
	kind := "text"
	if binary {
		kind = "binary"
	}
	metadata := append(make(record.Metadata, 0, len(shared)+2), shared...)
	metadata.Set("websocket.type", kind)
	metadata.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	return &content{[]record.Record{{Operation: record.OperationCreate, Metadata: metadata, After: record.Raw(text)}}}
}

// Left implements common.Content.
func (c *content) Left() int { return len(c.records) }

// Next implements common.Content.
func (c *content) Next(int) (all []record.Record, err error) {
	all, c.records = c.records, nil
	return all, nil
}
