package mqtt

import (
	"crypto/sha256"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/sources"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// received has the messages that were received: those to be read, and those that were read, until
// the server knows that they are acknowledged. After a lost connection the server sends again
// what it does not know of, under the same packet ids, marked as duplicates: what was read is
// recognized by them and not read again.
type received struct {
	*sources.Inbox[*message]
	most   int        // messages that wait
	buffer sdk.Buffer // of the host: messages of Queue

	session *session            // guarded by Inbox: of the present connection
	hashed  []byte              // guarded by Inbox: what a hash is made of
	acked   []*message          // guarded by Inbox: the last ones that were acknowledged
	byID    map[uint16]*message // guarded by Inbox: of Queue, Read and acked
	dropped int                 // guarded by Inbox
}

type message struct {
	session *session // that received it last
	publish *paho.Publish
	hash    [sha256.Size]byte
	acked   bool
	after   []leftOut // those that came behind it, to be acknowledged after it
}

// leftOut identifies a message that is not read.
type leftOut struct {
	session *session
	publish paho.Publish
}

func newReceived(most int, buffer sdk.Buffer) *received {
	return &received{Inbox: sources.NewInbox[*message](), most: most, buffer: buffer, byID: map[uint16]*message{}}
}

// put takes a message. It returns false when it is dropped: the server bounds how many wait,
// but not those of QoS 0.
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
		if before.acked { // it comes before those that are not
			s.acknowledge(p.Packet())
		}
		return true
	}
	b.byID[p.PacketID] = m
	b.buffer.Add(sizeOf(p)) // the server bounds how many there are
	b.Push(m)
	return true
}

// leaveOut acknowledges a message that is not read, once those before it are.
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

// propertySize is how many bytes of memory a property takes in addition to its text.
const propertySize = 40

// sizeOf returns how many bytes of memory a message takes, about.
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

// hash returns what tells messages with the same packet id apart.
func (b *received) hash(p *paho.Publish) [sha256.Size]byte {
	b.hashed = append(append(append(b.hashed[:0], p.Topic...), 0), p.Payload...)
	defer func() { b.hashed = b.hashed[:0:min(cap(b.hashed), mostBuffered)] }()
	return sha256.Sum256(b.hashed)
}

// connected drops what was not read: it comes again, in order.
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

// ack acknowledges the next n messages that were read. An acknowledgement over a connection
// that is lost is made good when the server sends the message again.
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
