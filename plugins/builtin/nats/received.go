package nats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// received holds received messages: those not yet read, and those read but not acknowledged. After a lost connection
// the server delivers them again. Their sequence numbers identify them, and they are not read again.
type received struct {
	*common.Inbox[*message]

	most   int64      // maximum bytes of Queue; one message always fits
	buffer sdk.Buffer // memory budget of the host for Queue

	bytes   int64         // guarded by Inbox: size of Queue
	last    uint64        // guarded by Inbox: last sequence number queued or read
	acked   uint64        // guarded by Inbox: last acknowledged sequence number
	streams int           // guarded by Inbox: how often the stream was recreated
	freed   notify.Signal // a message was read or acknowledged
}

type message struct {
	jetstream.Msg
	meta    *jetstream.MsgMetadata
	created time.Time     // creation time of the stream
	stream  int           // value of received.streams when the message arrived
	again   jetstream.Msg // guarded by Inbox: latest delivery of the message, to acknowledge
}

func newReceived(at uint64, most int64, buffer sdk.Buffer) *received {
	return &received{Inbox: common.NewInbox[*message](), most: most, buffer: buffer, last: at, acked: at,
		freed: notify.NewSignal()}
}

// put queues a message.
func (b *received) put(m *message) {
	b.Lock()
	defer b.Unlock()
	sequence := m.meta.Sequence.Stream
	m.stream = b.streams
	switch {
	case sequence > b.last:
		b.last = sequence
		b.count(size(m))
		b.Push(m)
	case sequence <= b.acked:
		_ = m.Ack() // put repeats a lost acknowledgement
	default:
		for _, old := range slices.Concat(b.Read, b.Queue) {
			if old.meta.Sequence.Stream == sequence && old.stream == b.streams {
				old.again = m.Msg
			}
		}
	}
}

// headerSize is the memory overhead of a header, in bytes, in addition to its text.
const headerSize = 100

// size returns the approximate memory size of a message, in bytes.
func size(m *message) int64 { return int64(len(m.Subject())+len(m.Data())) + sizeOf(m.Headers()) }

func sizeOf(header map[string][]string) (n int64) {
	for name, values := range header {
		for _, v := range values {
			n += int64(headerSize + len(name) + len(v))
		}
	}
	return n
}

// count adds n to the size of the unread messages. The caller holds the lock of Inbox.
func (b *received) count(n int64) {
	b.bytes += n
	b.buffer.Add(int(n))
}

// wait waits until fewer than most messages are unacknowledged, and there is room and memory for next. The server's own
// count omits messages that the stream has removed.
func (b *received) wait(ctx context.Context, most int, next *message) error {
	for !b.fits(most, size(next)) {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (b *received) fits(most int, bytes int64) bool {
	b.Lock()
	defer b.Unlock()
	if len(b.Queue)+len(b.Read) >= most {
		return false
	}
	return len(b.Queue) == 0 || b.bytes+bytes <= b.most && bytes <= int64(b.buffer.Room())
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

// ack acknowledges the next n read messages. put repeats a lost acknowledgement when the server delivers the message
// again.
func (b *received) ack(n int) {
	b.Lock()
	defer b.Unlock()
	for _, m := range b.Acknowledged(n) {
		_ = cmp.Or(m.again, m.Msg).Ack()
		if m.stream == b.streams {
			b.acked = m.meta.Sequence.Stream
		}
	}
	b.freed.Notify()
}

// begin sets the sequence number before the first message, unless a message was received already.
func (b *received) begin(sequence uint64) {
	b.Lock()
	defer b.Unlock()
	if b.last == 0 {
		b.last, b.acked = sequence, sequence
	}
}

// restart resets the sequence numbers after the stream was recreated.
func (b *received) restart() {
	b.Lock()
	defer b.Unlock()
	b.last, b.acked = 0, 0
	b.streams++
}

// at returns the sequence number up to which all messages are acknowledged, and that of the last received message.
func (b *received) at() (acked, last uint64) {
	b.Lock()
	defer b.Unlock()
	return b.acked, b.last
}

// unacked returns the number of received, unacknowledged messages.
func (b *received) unacked() int {
	b.Lock()
	defer b.Unlock()
	return len(b.Queue) + len(b.Read)
}
