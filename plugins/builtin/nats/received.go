package nats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/builtin/sources"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// received has the messages that were received: those to be read, and those that were read and not
// acknowledged. After a lost connection the server delivers them again; they are recognized by their
// sequence numbers and not read again.
type received struct {
	*sources.Inbox[*message]

	most   int64      // bytes of Queue, of one message at least
	buffer sdk.Buffer // of the host, that they are counted in

	bytes   int64         // guarded by Inbox: of Queue
	last    uint64        // guarded by Inbox: of Queue, or read before
	acked   uint64        // guarded by Inbox
	streams int           // guarded by Inbox: that were recreated
	freed   notify.Signal // something was read or acknowledged
}

type message struct {
	jetstream.Msg
	meta    *jetstream.MsgMetadata
	created time.Time     // of the stream
	stream  int           // streams at the time
	again   jetstream.Msg // guarded by Inbox: as it was received last, to be acknowledged
}

func newReceived(at uint64, most int64, buffer sdk.Buffer) *received {
	return &received{Inbox: sources.NewInbox[*message](), most: most, buffer: buffer, last: at, acked: at, freed: notify.NewSignal()}
}

// put takes a message.
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
		_ = m.Ack() // it is repeated when it does not arrive
	default:
		for _, old := range slices.Concat(b.Read, b.Queue) {
			if old.meta.Sequence.Stream == sequence && old.stream == b.streams {
				old.again = m.Msg
			}
		}
	}
}

// headerSize is how many bytes of memory a header takes in addition to its text.
const headerSize = 100

// size returns how many bytes of memory a message takes, about.
func size(m *message) int64 { return int64(len(m.Subject())+len(m.Data())) + sizeOf(m.Headers()) }

func sizeOf(header map[string][]string) (n int64) {
	for name, values := range header {
		for _, v := range values {
			n += int64(headerSize + len(name) + len(v))
		}
	}
	return n
}

// count counts bytes that wait to be read. The caller has the inbox locked.
func (b *received) count(n int64) {
	b.bytes += n
	b.buffer.Add(int(n))
}

// wait waits until fewer than most messages are not acknowledged, and there is room and memory for this one. A server does not
// count those that its stream has removed.
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

// read waits for messages and returns all that wait.
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

// ack acknowledges the next n messages that were read. An acknowledgement that is lost is repeated when the
// message comes again.
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

// begin places what is to come behind the sequence number, when nothing was received yet.
func (b *received) begin(sequence uint64) {
	b.Lock()
	defer b.Unlock()
	if b.last == 0 {
		b.last, b.acked = sequence, sequence
	}
}

// restart has the numbers start over, as those of the stream did.
func (b *received) restart() {
	b.Lock()
	defer b.Unlock()
	b.last, b.acked = 0, 0
	b.streams++
}

// at returns the number up to which all is acknowledged, and that of the last message received.
func (b *received) at() (acked, last uint64) {
	b.Lock()
	defer b.Unlock()
	return b.acked, b.last
}

// unacked returns how many messages were received and not acknowledged.
func (b *received) unacked() int {
	b.Lock()
	defer b.Unlock()
	return len(b.Queue) + len(b.Read)
}
