package mqtt

import (
	"context"

	"github.com/eclipse/paho.golang/packets"
	paho "github.com/eclipse/paho.golang/paho/session"
	"github.com/eclipse/paho.golang/paho/session/state"
)

// session is the library's state of a connection. It differs in two ways: a message is acknowledged when the pipeline
// has settled it instead of when its handler returns, and answers arrive at the channel that waits for them in order.
type session struct {
	*state.State

	answer chan<- packets.ControlPacket // for the answer to the next published message; nil in the source
}

func newSession() *session { return &session{State: state.NewInMemory()} }

// Ack acknowledges nothing. The library calls it when the handler of a message has returned.
func (s *session) Ack(*packets.Publish) error { return nil }

// acknowledge acknowledges a message. The messages of a server must be acknowledged in order of arrival.
func (s *session) acknowledge(m *packets.Publish) { _ = s.State.Ack(m) }

// AddToSession adds p with the answer channel of the session. The library calls it before it sends p.
func (s *session) AddToSession(ctx context.Context, p paho.Packet, answer chan<- packets.ControlPacket) error {
	if p.Type() == packets.PUBLISH {
		answer = s.answer
	}
	return s.State.AddToSession(ctx, p, answer)
}
