package mqtt

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/eclipse/paho.golang/paho"
)

// inbox has the messages that were received: those to be read, and those that were read, until
// the server knows that they are acknowledged. After a lost connection the server sends again
// what it does not know of, under the same packet ids, marked as duplicates: what was read is
// recognized by them and not read again.
type inbox struct {
	most int // messages that wait

	mu      sync.Mutex
	client  *paho.Client        // guarded by mu: of the present connection
	queue   []*message          // guarded by mu: not read
	read    []*message          // guarded by mu: read and not acknowledged, in order
	acked   []*message          // guarded by mu: the last ones that were acknowledged
	byID    map[uint16]*message // guarded by mu: of queue, read and acked
	dropped int                 // guarded by mu
	err     error               // guarded by mu: why nothing comes any more
	arrived chan struct{}       // holds a token when there is something to take
}

type message struct {
	client  *paho.Client // that received it last
	publish *paho.Publish
	hash    [sha256.Size]byte
	acked   bool
}

func newInbox(most int) *inbox {
	return &inbox{most: most, byID: map[uint16]*message{}, arrived: make(chan struct{}, 1)}
}

// put takes a message. It returns false when it is dropped: the server bounds how many wait,
// but not those of QoS 0.
func (b *inbox) put(c *paho.Client, p *paho.Publish) bool {
	m := &message{client: c, publish: p, hash: sha256.Sum256(append([]byte(p.Topic+"\x00"), p.Payload...))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c != b.client {
		b.connected(c)
	}
	if p.QoS == 0 {
		if len(b.queue) >= b.most {
			b.dropped++
			return false
		}
		b.push(m)
		return true
	}
	if before := b.byID[p.PacketID]; before != nil && p.Duplicate() && before.hash == m.hash {
		before.client, before.publish = c, p
		if before.acked {
			_ = c.Ack(p)
		}
		return true
	}
	b.byID[p.PacketID] = m
	b.push(m)
	return true
}

func (b *inbox) push(m *message) {
	b.queue = append(b.queue, m)
	b.wake()
}

// connected drops what was not read: it comes again, in order.
func (b *inbox) connected(c *paho.Client) {
	b.client = c
	kept := b.queue[:0]
	for _, m := range b.queue {
		if m.publish.QoS == 0 {
			kept = append(kept, m)
		} else if b.byID[m.publish.PacketID] == m {
			delete(b.byID, m.publish.PacketID)
		}
	}
	clear(b.queue[len(kept):])
	b.queue = kept
}

func (b *inbox) wake() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
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

// ack acknowledges the next n messages that were read. An acknowledgement over a connection
// that is lost is made good when the server sends the message again.
func (b *inbox) ack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.read))
	for _, m := range b.read[:n] {
		if m.publish.QoS == 0 {
			continue
		}
		m.acked = true
		_ = m.client.Ack(m.publish)
		b.acked = append(b.acked, m)
	}
	b.read = b.read[n:]
	for len(b.acked) > b.most {
		if m := b.acked[0]; b.byID[m.publish.PacketID] == m {
			delete(b.byID, m.publish.PacketID)
		}
		b.acked = b.acked[1:]
	}
}

// fail ends reading, after what was received.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.wake()
}
