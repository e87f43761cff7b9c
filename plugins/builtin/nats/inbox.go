package nats

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// inbox has the messages that were received: those to be read, and those that were read and not
// acknowledged. After a lost connection the server delivers them again; they are recognized by their
// sequence numbers and not read again.
type inbox struct {
	mu      sync.Mutex
	queue   []*message    // guarded by mu: not read, in order
	read    []*message    // guarded by mu: read and not acknowledged, in order
	last    uint64        // guarded by mu: of queue, or read before
	acked   uint64        // guarded by mu
	streams int           // guarded by mu: that were made anew
	err     error         // guarded by mu: why nothing comes any more
	arrived chan struct{} // holds a token when there is something to take
	freed   chan struct{} // holds a token when something was acknowledged
}

type message struct {
	jetstream.Msg
	meta    *jetstream.MsgMetadata
	created time.Time     // of the stream
	stream  int           // streams at the time
	again   jetstream.Msg // guarded by mu: as it was received last, to be acknowledged
}

func newInbox(at uint64) *inbox {
	return &inbox{last: at, acked: at, arrived: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// put takes a message.
func (b *inbox) put(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sequence := m.meta.Sequence.Stream
	m.stream = b.streams
	switch {
	case sequence > b.last:
		b.queue, b.last = append(b.queue, m), sequence
		wake(b.arrived)
	case sequence <= b.acked:
		_ = m.Ack() // it is repeated when it does not arrive
	default:
		for _, old := range slices.Concat(b.read, b.queue) {
			if old.meta.Sequence.Stream == sequence && old.stream == b.streams {
				old.again = m.Msg
			}
		}
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits until fewer than most messages are not acknowledged. A server does not count those that its
// stream has removed.
func (b *inbox) wait(ctx context.Context, most int) error {
	for b.unacked() >= most {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take returns the messages that wait to be read.
func (b *inbox) take(ctx context.Context) ([]*message, error) {
	for {
		b.mu.Lock()
		messages, err := b.queue, b.err
		b.queue = nil
		b.read = append(b.read, messages...)
		b.mu.Unlock()
		if len(messages) > 0 || err != nil {
			return messages, err
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ack acknowledges the next n messages that were read. An acknowledgement that is lost is repeated when the
// message comes again.
func (b *inbox) ack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.read))
	for _, m := range b.read[:n] {
		_ = cmp.Or(m.again, m.Msg).Ack()
		if m.stream == b.streams {
			b.acked = m.meta.Sequence.Stream
		}
	}
	b.read = b.read[n:]
	wake(b.freed)
}

// begin places what is to come behind the sequence number, when nothing was received yet.
func (b *inbox) begin(sequence uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == 0 {
		b.last, b.acked = sequence, sequence
	}
}

// restart has the numbers begin anew, as those of the stream did.
func (b *inbox) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.acked = 0, 0
	b.streams++
}

// at returns the number up to which all is acknowledged, and that of the last message received.
func (b *inbox) at() (acked, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked, b.last
}

// unacked returns how many messages were received and not acknowledged.
func (b *inbox) unacked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) + len(b.read)
}

// fail ends reading, after what was received.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	wake(b.arrived)
}
