package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// produce produces all messages, and returns an error for each. When ctx ends it returns at
// once, with ctx.Err() for those whose fate is not known.
func produce(ctx context.Context, client *kgo.Client, messages []*kgo.Record) []error {
	outcome := &outcome{errs: make([]error, len(messages)), done: make(chan struct{}), left: len(messages)}
	if len(messages) == 0 {
		return nil
	}
	for i := range outcome.errs {
		outcome.errs[i] = errUnknown
	}
	for i, m := range messages {
		client.Produce(ctx, m, func(_ *kgo.Record, err error) { outcome.set(i, err) })
	}
	select {
	case <-outcome.done:
	case <-ctx.Done():
	}
	return outcome.all()
}

var errUnknown = errors.New("it is not known whether the message was written")

// outcome gathers what became of messages, in the order in which they were given.
type outcome struct {
	mu   sync.Mutex
	errs []error
	left int
	done chan struct{} // closed when none is left
}

func (o *outcome) set(i int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs[i] = err
	if o.left--; o.left == 0 {
		close(o.done)
	}
}

func (o *outcome) all() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]error(nil), o.errs...)
}

// judge returns how many messages were written before the first that was not, and why that one
// was not: it is refused, or the brokers cannot be written to.
func (d *Destination) judge(ctx context.Context, messages []*kgo.Record, errs []error) (int, error) {
	for i, err := range errs {
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return i, sdk.Unavailable(ctx.Err())
		case d.refuses(messages[i], err):
			return i, fmt.Errorf("cannot write the message to topic %q: %w", messages[i].Topic, err)
		default:
			return i, sdk.Unavailable(fmt.Errorf("cannot write to topic %q: %w", messages[i].Topic, d.explain(err)))
		}
	}
	return len(messages), nil
}

// retryLarge produces messages alone whose batch was too large: the broker does not say which
// of them is.
func (d *Destination) retryLarge(ctx context.Context, messages []*kgo.Record, errs []error) {
	for i, err := range errs {
		if tooLarge(err) {
			errs[i] = produce(ctx, d.client, messages[i:i+1])[0]
		}
	}
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// refuses reports whether err is the fault of the record, so that another one may be written.
func (d *Destination) refuses(m *kgo.Record, err error) bool {
	switch {
	case tooLarge(err), errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp), m.Context == noSuchPartition:
		return true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return d.topic.perRecord() // another record may be of another topic
	}
	return false
}

// explain returns why no broker could be reached, if that is what err comes from.
func (d *Destination) explain(err error) error {
	if cause := d.network.failed(); cause != nil && errors.Is(err, kgo.ErrRecordTimeout) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
