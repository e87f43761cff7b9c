package mqtt

import (
	"crypto/sha256"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// received holds received messages: those not yet read, and those read until the server knows their acknowledgement.
// After a lost connection the server sends the messages without a known acknowledgement again, under the same packet
// ids and marked as duplicates. The packet id and a hash identify messages that are already read; these are not read
// again.
type received struct {
	*common.Inbox[*message]
	most   int        // maximum number of queued messages
	buffer sdk.Buffer // memory budget of the host: messages of Queue

	session *session            // guarded by Inbox: of the current connection
	hashed  []byte              // guarded by Inbox: input of hash, reused
	acked   []*message          // guarded by Inbox: most recently acknowledged messages
	byID    map[uint16]*message // guarded by Inbox: messages of Queue, Read and acked
	dropped int                 // guarded by Inbox
}

type message struct {
	session *session // session that received it most recently
	publish *paho.Publish
	hash    [sha256.Size]byte
	acked   bool
	after   []leftOut // left-out messages to acknowledge after this one
}

// leftOut identifies a message that the source does not read.
type leftOut struct {
	session *session
	publish paho.Publish
}

func newReceived(most int, buffer sdk.Buffer) *received {
	return &received{Inbox: common.NewInbox[*message](), most: most, buffer: buffer, byID: map[uint16]*message{}}
}

// put queues a message. It returns false when the message is dropped: the server limits the number of unacknowledged
// messages, but not of messages with QoS 0.
func (b *received) put(s *session, p *paho.Publish) bool {
	m := &message{session: s, publish: p}
	b.Lock()
	defer b.Unlock()
	if s != b.session {
		b.connected(s)
	}
	if p.QoS == 0 {
		if len(b.Queue) >= b.most || !b.buffer.Take(sizeOf(p)) {
			b.dropped++
			return false
		}
		b.Push(m)
		return true
	}
	m.hash = b.hash(p)
	if before := b.byID[p.PacketID]; before != nil && p.Duplicate() && before.hash == m.hash {
		before.session, before.publish, before.after = s, p, nil
		if before.acked { // it precedes all unacknowledged messages
			s.acknowledge(p.Packet())
		}
		return true
	}
	b.byID[p.PacketID] = m
	b.buffer.Add(sizeOf(p)) // the server limits their number
	b.Push(m)
	return true
}

// leaveOut acknowledges a message that the source does not read, after the messages before it.
func (b *received) leaveOut(s *session, p *paho.Publish) {
	b.Lock()
	defer b.Unlock()
	if s != b.session {
		b.connected(s)
	}
	if p.QoS == 0 {
		return
	}
	delete(b.byID, p.PacketID)
	m := leftOut{s, paho.Publish{PacketID: p.PacketID, QoS: p.QoS}}
	switch {
	case len(b.Queue) > 0:
		last := b.Queue[len(b.Queue)-1]
		last.after = append(last.after, m)
	case len(b.Read) > 0:
		last := b.Read[len(b.Read)-1]
		last.after = append(last.after, m)
	default:
		m.acknowledge()
	}
}

func (m *leftOut) acknowledge() { m.session.acknowledge(m.publish.Packet()) }

// propertySize is the memory overhead of a property, in bytes, in addition to its text.
const propertySize = 40

// sizeOf returns the approximate memory size of a message, in bytes.
func sizeOf(p *paho.Publish) int {
	n := len(p.Topic) + len(p.Payload)
	if p.Properties != nil {
		n += len(p.Properties.ContentType) + len(p.Properties.ResponseTopic) + len(p.Properties.CorrelationData)
		for _, u := range p.Properties.User {
			n += propertySize + len(u.Key) + len(u.Value)
		}
	}
	return n
}

// hash returns a hash that distinguishes messages with the same packet id.
func (b *received) hash(p *paho.Publish) [sha256.Size]byte {
	b.hashed = append(append(append(b.hashed[:0], p.Topic...), 0), p.Payload...)
	defer func() { b.hashed = b.hashed[:0:min(cap(b.hashed), maxBuffered)] }()
	return sha256.Sum256(b.hashed)
}

// connected drops unread messages after a reconnect: the server sends them again, in order.
func (b *received) connected(s *session) {
	b.session = s
	kept := b.Queue[:0]
	for _, m := range b.Queue {
		if m.publish.QoS == 0 {
			kept = append(kept, m)
			continue
		}
		b.buffer.Add(-sizeOf(m.publish))
		if b.byID[m.publish.PacketID] == m {
			delete(b.byID, m.publish.PacketID)
		}
	}
	clear(b.Queue[len(kept):])
	b.Queue = kept
}

// ack acknowledges the next n read messages. When an acknowledgement is lost with its connection, put repeats it when
// the server sends the message again.
func (b *received) ack(n int) {
	b.Lock()
	defer b.Unlock()
	for _, m := range b.Acknowledged(n) {
		if m.publish.QoS > 0 {
			m.acked = true
			m.session.acknowledge(m.publish.Packet())
			b.acked = append(b.acked, m)
		}
		for i := range m.after {
			m.after[i].acknowledge()
		}
		m.after = nil
	}
	for len(b.acked) > b.most {
		if m := b.acked[0]; b.byID[m.publish.PacketID] == m {
			delete(b.byID, m.publish.PacketID)
		}
		b.acked = b.acked[1:]
	}
}
