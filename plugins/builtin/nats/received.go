package nats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/builtin/inbox"
	"github.com/conduit-agent/conduit/spec/notify"
)

// received has the messages that were received: those to be read, and those that were read and not
// acknowledged. After a lost connection the server delivers them again; they are recognized by their
// sequence numbers and not read again.
type received struct {
	*inbox.Inbox[*message]

	last    uint64        // guarded by Inbox: of Queue, or read before
	acked   uint64        // guarded by Inbox
	streams int           // guarded by Inbox: that were recreated
	freed   notify.Signal // something was acknowledged
}

type message struct {
	jetstream.Msg
	meta    *jetstream.MsgMetadata
	created time.Time     // of the stream
	stream  int           // streams at the time
	again   jetstream.Msg // guarded by Inbox: as it was received last, to be acknowledged
}

func newReceived(at uint64) *received {
	return &received{Inbox: inbox.New[*message](), last: at, acked: at, freed: notify.NewSignal()}
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

// wait waits until fewer than most messages are not acknowledged. A server does not count those that its
// stream has removed.
func (b *received) wait(ctx context.Context, most int) error {
	for b.unacked() >= most {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
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
