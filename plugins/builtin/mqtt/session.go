package mqtt

import (
	"context"

	"github.com/eclipse/paho.golang/packets"
	paho "github.com/eclipse/paho.golang/paho/session"
	"github.com/eclipse/paho.golang/paho/session/state"
)

// session is what the library knows of a connection. What was received is not acknowledged when it was
// handled, but when the pipeline did, and answers to messages come where they are waited for in their order.
type session struct {
	*state.State

	answer chan<- packets.ControlPacket // to the message that is published next; nil on the side of the source
}

func newSession() *session { return &session{State: state.NewInMemory()} }

// Ack is called by the library when a message was handled, which acknowledges nothing.
func (s *session) Ack(*packets.Publish) error { return nil }

// acknowledge acknowledges a message. Those of a server must be acknowledged in the order in which they came.
func (s *session) acknowledge(m *packets.Publish) { _ = s.State.Ack(m) }

// AddToSession is called by the library before it sends p.
func (s *session) AddToSession(ctx context.Context, p paho.Packet, answer chan<- packets.ControlPacket) error {
	if p.Type() == packets.PUBLISH {
		answer = s.answer
	}
	return s.State.AddToSession(ctx, p, answer)
}
