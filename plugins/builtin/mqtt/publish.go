package mqtt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxPublished is the maximum number of messages in flight. The server may accept fewer.
const maxPublished = 1000

// overhead is the maximum size of a packet without topic and payload, in bytes.
const overhead = 16

// recordError reports a record that cannot be published.
type recordError struct {
	error
	behind int // records directly after it that the server already has
}

// publish publishes messages in order and retries after temporary failures. It returns the number of messages that the
// server has, and the error of the next one.
func (d *Destination) publish(ctx context.Context, messages []paho.Publish) (done int, err error) {
	var again common.Backoff
	for begin := time.Now(); done < len(messages); {
		n, err := d.try(ctx, messages[done:])
		if done += n; n > 0 {
			begin, again = time.Now(), common.Backoff{}
		}
		switch {
		case err == nil:
			continue
		case errors.As(err, new(*recordError)):
			return done, err
		case ctx.Err() != nil:
			return done, ctx.Err()
		case errors.As(err, new(deniedError)), time.Since(begin) >= d.settings.RetryFor:
			return done, sdk.Unavailable(fmt.Errorf("cannot publish: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot publish, retrying", "err", err, "tries", again.Tries+1)
		if err := again.Wait(ctx); err != nil {
			return done, err
		}
	}
	return done, nil
}

// answer receives the server's answer to a message. It receives nothing with QoS 0.
type answer chan packets.ControlPacket

// try publishes messages, several at a time, until one fails. The server may have some of the messages after the failed
// one; the caller publishes them again, except for those counted in recordError.behind.
func (d *Destination) try(ctx context.Context, messages []paho.Publish) (done int, err error) {
	if d.client == nil || isDone(d.client) {
		if err := d.connect(ctx); err != nil {
			return 0, err
		}
	}
	var answers []answer // to all sent messages
	var failed error     // why sending has stopped
	for ; done < len(messages); done++ {
		for failed == nil && len(answers) < len(messages) && len(answers)-done < maxPublished {
			var a answer
			if a, failed = d.send(ctx, &messages[len(answers)]); failed == nil {
				answers = append(answers, a)
			}
		}
		if done == len(answers) {
			if !errors.As(failed, new(*recordError)) {
				d.leave()
			}
			return done, failed
		}
		code, err := d.wait(ctx, answers[done])
		if err != nil { // the server may or may not have the message
			d.leave()
			return done, err
		}
		if code >= refused {
			return done, explain(code, messages[done].Topic, d.settle(ctx, answers[done+1:]))
		}
	}
	return done, nil
}

// send sends a message as soon as the server accepts another one.
func (d *Destination) send(ctx context.Context, p *paho.Publish) (answer, error) {
	if d.largest > 0 && len(p.Payload)+len(p.Topic)+overhead > d.largest {
		return nil, &recordError{error: fmt.Errorf("the record has %d bytes, more than the %d that the server accepts",
			len(p.Payload), d.largest)}
	}
	if d.largest > 0 && sizeOf(p)+overhead > d.largest {
		p.Properties = nil // the trace context, without which the message fits
	}
	a := make(answer, 1)
	d.client.session.answer = a
	_, err := d.client.PublishWithOptions(ctx, p, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend})
	if err != nil && ctx.Err() == nil && isDone(d.client) {
		err = errLost
	}
	return a, err
}

// wait waits for the answer to a message, or until the connection is lost. With QoS 0 it waits until all messages are
// sent.
func (d *Destination) wait(ctx context.Context, a answer) (code byte, err error) {
	if d.settings.QoS == 0 {
		return 0, d.client.conn.Sent()
	}
	late := time.NewTimer(d.settings.Timeout)
	defer late.Stop()
	select {
	case p := <-a:
		return codeOf(p)
	case <-d.client.Done():
		select {
		case p := <-a: // arrived before the connection was lost
			return codeOf(p)
		default:
			return 0, errLost
		}
	case <-late.C:
		return 0, fmt.Errorf("the server did not respond within %s", d.settings.Timeout)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// refused is the lowest reason code that means refusal.
const refused = 0x80

func codeOf(p packets.ControlPacket) (byte, error) {
	switch c := p.Content.(type) {
	case *packets.Puback:
		return c.ReasonCode, nil
	case *packets.Pubrec:
		return c.ReasonCode, nil
	case *packets.Pubcomp:
		return c.ReasonCode, nil
	}
	return 0, errLost
}

// settle waits for the answers to the messages after a refused one, and returns the number of messages directly after
// it that the server has.
func (d *Destination) settle(ctx context.Context, answers []answer) (behind int) {
	for i, a := range answers {
		switch code, err := d.wait(ctx, a); {
		case err != nil:
			d.leave()
			return behind
		case code < refused && behind == i:
			behind++
		}
	}
	return behind
}

// explain converts the reason code of a refused message to an error.
func explain(code byte, topic string, behind int) error {
	err := fmt.Errorf("the server refused the message for %q with code 0x%x", topic, code)
	switch code {
	case packets.PubackTopicNameInvalid, packets.PubackPayloadFormatInvalid:
		return &recordError{err, behind}
	case packets.PubackNotAuthorized:
		return deniedError{err}
	}
	return err
}

func isDone(c *connection) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}
