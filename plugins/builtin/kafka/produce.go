package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// produce produces all messages, and returns an error for each. When ctx ends it returns at once, with ctx.Err() for
// messages whose result is unknown.
func produce(ctx context.Context, client *kgo.Client, messages []*kgo.Record) []error {
	p := newProduction(len(messages))
	for i, m := range messages {
		p.produce(ctx, client, i, m)
	}
	_ = client.Flush(ctx) // do not wait for more messages; the production has the errors
	return p.wait(ctx, len(messages))
}

var errUnknown = errors.New("it is unknown whether the message was written")

// production collects the results of messages, in the order in which they were produced.
type production struct {
	over chan struct{} // closed when no message will be produced again

	mu   sync.Mutex
	errs []error
	done int
	all  notify.Signal // notified when done reaches want
	want int           // number of results waited for; -1: not known yet
}

// newProduction returns the production of up to n messages.
func newProduction(n int) *production {
	p := &production{over: make(chan struct{}), errs: make([]error, n), all: notify.NewSignal(), want: -1}
	for i := range p.errs {
		p.errs[i] = errUnknown
	}
	return p
}

func (p *production) produce(ctx context.Context, client *kgo.Client, i int, m *kgo.Record) {
	client.Produce(ctx, m, func(_ *kgo.Record, err error) { p.set(i, err) })
}

func (p *production) set(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs[i] = err
	if p.done++; p.done == p.want {
		p.all.Notify()
	}
}

// wait returns the results of the n produced messages.
func (p *production) wait(ctx context.Context, n int) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want = n; p.done < n {
		p.mu.Unlock()
		select {
		case <-p.all:
		case <-ctx.Done():
		}
		p.mu.Lock()
	}
	return append([]error(nil), p.errs[:n]...)
}

// judge returns the number of messages written before the first failure, and the reason of the failure: the message is
// refused, or the brokers cannot be written to.
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

// retryLarge produces the messages of a batch that was too large one by one, because the broker does not say which
// message is too large.
func (d *Destination) retryLarge(ctx context.Context, messages []*kgo.Record, errs []error) {
	for i, err := range errs {
		if tooLarge(err) {
			d.large.Store(true)
			errs[i] = produce(ctx, d.client, messages[i:i+1])[0]
		}
	}
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// refuses reports whether the record causes err, so that other records may still be written.
func (d *Destination) refuses(m *kgo.Record, err error) bool {
	switch {
	case tooLarge(err), errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp),
		m.Context == noSuchPartition:
		return true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.TopicAuthorizationFailed),
		errors.Is(err, kerr.InvalidTopicException):
		return d.topic.perRecord() // other records may go to other topics
	}
	return false
}

// explain returns the reason why no broker is reachable, if it is the cause of err.
func (d *Destination) explain(err error) error {
	if cause := d.network.failed(); cause != nil && errors.Is(err, kgo.ErrRecordTimeout) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
