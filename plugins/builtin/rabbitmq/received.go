package rabbitmq

import (
	"context"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// received holds received messages: those not yet read, and those read but not acknowledged.
type received struct {
	*common.Inbox[*message]

	most   int64      // bytes of Queue above which nothing more is taken from the connection
	buffer sdk.Buffer // memory budget of the host for Queue

	bytes   int64         // guarded by Inbox: size of Queue
	current *connection   // guarded by Inbox: connection that receives; nil if there is none
	freed   notify.Signal // messages were read
}

// message is a message with the connection that received it. A message can be acknowledged only there.
type message struct {
	amqp.Delivery
	conn   *connection
	stream bool   // the queue is a stream
	offset uint64 // in the stream
}

func newReceived(most int64, buffer sdk.Buffer) *received {
	return &received{Inbox: common.NewInbox[*message](), most: most, buffer: buffer, freed: notify.NewSignal()}
}

// headerSize is the memory overhead of a header, in bytes, in addition to its name and text.
const headerSize = 100

// size returns the approximate memory size of a message, in bytes.
func size(m *message) int64 {
	n := len(m.Exchange) + len(m.RoutingKey) + len(m.Body)
	for name, value := range m.Headers {
		n += headerSize + len(name)
		if text, ok := value.(string); ok {
			n += len(text)
		}
	}
	return int64(n)
}

// count adds n to the size of the unread messages. The caller holds the lock of Inbox.
func (b *received) count(n int64) {
	b.bytes += n
	b.buffer.Add(int(n))
}

// begin makes c the connection that receives. From a queue the server sends all unacknowledged messages again, in
// order, so begin drops those that are unread. It keeps messages of a stream, which are not sent again.
func (b *received) begin(c *connection) {
	b.Lock()
	defer b.Unlock()
	b.current = c
	b.Queue = slices.DeleteFunc(b.Queue, func(m *message) bool {
		if !m.stream {
			b.count(-size(m))
		}
		return !m.stream
	})
}

// end makes the connection of begin unusable for acknowledgements.
func (b *received) end() {
	b.Lock()
	defer b.Unlock()
	b.current = nil
}

func (b *received) put(m *message) {
	b.Lock()
	defer b.Unlock()
	b.count(size(m))
	b.Push(m)
}

// wait waits until there is room and memory for another message, or ctx ends.
func (b *received) wait(ctx context.Context) {
	for !b.fits() {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return
		}
	}
}

func (b *received) fits() bool {
	b.Lock()
	defer b.Unlock()
	return len(b.Queue) == 0 || b.bytes < b.most && b.buffer.Room() > 0
}

// read waits for messages and returns all queued messages.
func (b *received) read(ctx context.Context) ([]*message, error) {
	messages, err := b.Take(ctx)
	b.Lock()
	defer b.Unlock()
	for _, m := range messages {
		b.count(-size(m))
	}
	b.freed.Notify()
	return messages, err
}

// ack acknowledges the next n read messages. Messages of an earlier connection cannot be acknowledged: the server sends
// those of a queue again.
func (b *received) ack(n int) {
	b.Lock()
	var last *message
	own := 0
	for _, m := range b.Acknowledged(n) {
		if m.conn == b.current {
			last = m
			own++
		}
	}
	b.Unlock()
	if last != nil {
		last.acknowledge(own)
	}
}

// acknowledge acknowledges the message and the n-1 unacknowledged ones before it.
func (m *message) acknowledge(n int) {
	m.conn.socket.checker.Allow(n)
	_ = m.Ack(true) // fails only on a lost connection
}

// unacked returns the number of received, unacknowledged messages.
func (b *received) unacked() int {
	b.Lock()
	defer b.Unlock()
	return len(b.Queue) + len(b.Read)
}
