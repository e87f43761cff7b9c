package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxPending is the maximum number of published and unconfirmed messages.
const maxPending = 256

// publisher is a channel that confirms messages.
type publisher struct {
	*connection
	channel *amqp.Channel
	closed  chan *amqp.Error // reason for which the server has closed the channel
	returns chan amqp.Return // unroutable messages
}

// recordError reports a record that cannot be published.
type recordError struct {
	error
	behind int // records directly after it that the server already has
}

// publish publishes messages in order and retries after temporary failures. It returns the number of messages that the
// server has confirmed, and the error of the next one.
func (d *Destination) publish(ctx context.Context, messages []outgoing) (done int, err error) {
	var again common.Backoff
	single := false
	for begin := time.Now(); done < len(messages); {
		n, err := d.try(ctx, messages[done:], single)
		if done += n; n > 0 {
			begin, again = time.Now(), common.Backoff{}
		}
		var ended *channelError
		switch {
		case err == nil:
			continue
		case errors.As(err, new(*recordError)):
			return done, err
		case ctx.Err() != nil:
			return done, ctx.Err()
		case errors.As(err, &ended) && !single:
			single = true // the server does not name the message that it refuses
			continue
		case ended != nil:
			return done, &recordError{error: ended}
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

// channelError is the reason for which the server has closed a channel: it refuses one of the messages.
type channelError struct{ error }

// Unwrap returns the reason.
func (e *channelError) Unwrap() error { return e.error }

// connect opens a channel with confirmations, unless there is one.
func (d *Destination) connect(ctx context.Context) error {
	if d.publisher != nil && !d.publisher.channel.IsClosed() {
		return nil
	}
	d.leave()
	c, err := d.settings.connect(ctx, nil)
	if err != nil {
		return err
	}
	p := &publisher{connection: c, closed: make(chan *amqp.Error, 1), returns: make(chan amqp.Return, maxPending)}
	defer context.AfterFunc(ctx, func() { _ = c.socket.Close() })()
	if p.channel, err = c.Channel(); err == nil {
		err = p.channel.Confirm(false)
	}
	if err != nil {
		c.leave(d.settings.Timeout)
		return c.explain(fmt.Errorf("cannot open a channel: %w", err))
	}
	if err := d.declare(p.channel); err != nil {
		c.leave(d.settings.Timeout)
		return c.explain(err)
	}
	p.channel.NotifyClose(p.closed)
	p.channel.NotifyReturn(p.returns)
	d.publisher = p
	return nil
}

// declare declares the queue if the settings want it.
func (d *Destination) declare(ch *amqp.Channel) error {
	if d.settings.Declare == "" {
		return nil
	}
	name := d.settings.RoutingKey
	err := declareQueue(ch, name, d.settings.Declare)
	var reason *amqp.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &reason):
	case reason.Code == amqp.PreconditionFailed:
		return deniedError{fmt.Errorf("cannot declare queue %q: %w: it exists with other arguments: set declare to its "+
			"type, or remove declare", name, err)}
	case reason.Code == amqp.AccessRefused:
		return deniedError{fmt.Errorf("cannot declare queue %q: %w: give the user the permission to configure it, or "+
			"create the queue and remove declare", name, err)}
	}
	return fmt.Errorf("cannot declare queue %q: %w", name, err)
}

// leave disconnects.
func (d *Destination) leave() {
	if d.publisher != nil {
		d.publisher.leave(d.settings.Timeout)
	}
	d.publisher = nil
}

// try publishes messages, several at a time unless single, until one fails. The server may have some of the messages
// after the failed one; the caller publishes them again, except for those counted in recordError.behind.
func (d *Destination) try(ctx context.Context, messages []outgoing, single bool) (done int, err error) {
	if err := d.connect(ctx); err != nil {
		return 0, err
	}
	p, most := d.publisher, maxPending
	if single {
		most = 1
	}
	// A server that is out of memory does not read: then only closing the connection ends a publication.
	defer context.AfterFunc(ctx, func() { _ = p.socket.Close() })()
	var sent []*amqp.DeferredConfirmation
	returned := map[string]string{} // reasons by id
	var failed error                // why publishing has stopped
	for ; done < len(messages); done++ {
		for failed == nil && len(sent) < len(messages) && len(sent)-done < most {
			var one *amqp.DeferredConfirmation
			if one, failed = p.send(ctx, &messages[len(sent)], d.settings.Mandatory); failed == nil {
				sent = append(sent, one)
			}
		}
		if done == len(sent) {
			failed = d.explain(p, failed, &messages[done])
			d.leave()
			return done, failed
		}
		acked, err := p.wait(ctx, sent[done], d.settings.Timeout)
		switch {
		case err != nil:
			err = d.explain(p, err, &messages[done])
			d.leave() // the fate of the later messages is unknown
			return done, err
		case !acked:
			d.leave()
			return done, fmt.Errorf("the server refused the message for now: a queue of exchange %q and routing key "+
				"%q is full, or cannot store it", messages[done].exchange, messages[done].key)
		}
		p.collect(returned)
		if reason, unroutable := returned[messages[done].MessageId]; unroutable {
			return done, &recordError{messages[done].unroutable(reason),
				d.settle(ctx, messages[done+1:], sent[done+1:], returned)}
		}
	}
	return done, nil
}

// unroutable returns the error for a message that the server has returned with a reason.
func (m *outgoing) unroutable(reason string) error {
	if m.exchange == "" {
		return fmt.Errorf("cannot publish the record: there is no queue %q (%s): create it, or set mandatory to false "+
			"to drop such records", m.key, reason)
	}
	return fmt.Errorf("cannot publish the record: exchange %q has no queue for routing key %q (%s): bind a queue, or "+
		"set mandatory to false to drop such records", m.exchange, m.key, reason)
}

// collect adds the unroutable messages to returned. The server returns a message before it confirms it.
func (p *publisher) collect(returned map[string]string) {
	for {
		select {
		case r := <-p.returns:
			returned[r.MessageId] = r.ReplyText
		default:
			return
		}
	}
}

// settle waits for the confirmations of the messages after a refused one, and returns the number of messages directly
// after it that the server has.
func (d *Destination) settle(
	ctx context.Context, messages []outgoing, sent []*amqp.DeferredConfirmation, returned map[string]string,
) (behind int) {
	for i, one := range sent {
		acked, err := d.publisher.wait(ctx, one, d.settings.Timeout)
		if err != nil {
			d.leave()
			return behind
		}
		d.publisher.collect(returned)
		if _, unroutable := returned[messages[i].MessageId]; acked && !unroutable && behind == i {
			behind++
		}
	}
	return behind
}

// send sends a message while the server accepts messages.
func (p *publisher) send(ctx context.Context, m *outgoing, mandatory bool) (*amqp.DeferredConfirmation, error) {
	for p.blocked.Load() {
		select {
		case <-p.changed:
		case reason := <-p.lost:
			return nil, p.failure(reason)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.socket.checker.Published()
	return p.channel.PublishWithDeferredConfirm(m.exchange, m.key, mandatory, false, m.Publishing)
}

// wait waits for the confirmation of a message. While the server does not accept messages it waits without a limit.
func (p *publisher) wait(ctx context.Context, one *amqp.DeferredConfirmation, timeout time.Duration) (bool, error) {
	for {
		var expired <-chan time.Time
		late := time.NewTimer(timeout)
		if !p.blocked.Load() {
			expired = late.C
		}
		select {
		case <-one.Done():
			late.Stop()
			if !one.Acked() && p.channel.IsClosed() {
				return false, errClosed
			}
			return one.Acked(), nil
		case <-p.changed:
		case <-expired:
			return false, fmt.Errorf("the server did not confirm a message within %s", timeout)
		case <-ctx.Done():
			late.Stop()
			return false, ctx.Err()
		}
		late.Stop()
	}
}

var errClosed = errors.New("the channel was closed")

// explain returns the reason for which the channel is closed, if it is. m is the first message that the server has not
// confirmed.
func (d *Destination) explain(p *publisher, err error, m *outgoing) error {
	if !p.channel.IsClosed() {
		return err
	}
	reason := <-p.closed
	if violation := p.explain(nil); violation != nil {
		return violation
	}
	if reason == nil {
		return fmt.Errorf("the connection was lost: %w", err)
	}
	switch reason.Code {
	case amqp.PreconditionFailed, amqp.ContentTooLarge:
		return &channelError{fmt.Errorf("the server refused the record: %w", reason)}
	case amqp.NotFound:
		missing := fmt.Errorf("exchange %q does not exist in vhost %q: create it, or correct exchange: %w", m.exchange,
			d.settings.VHost, reason)
		if _, constant := d.exchange.Constant(); !constant {
			return &channelError{missing}
		}
		return missing
	case amqp.AccessRefused:
		return deniedError{fmt.Errorf("the server refused the message: give the user the permission to write to "+
			"exchange %q: %w", m.exchange, reason)}
	}
	if strings.HasPrefix(reason.Reason, "EOF") {
		return errors.New("the server ended the connection")
	}
	return fmt.Errorf("the connection was lost: %w", reason)
}
