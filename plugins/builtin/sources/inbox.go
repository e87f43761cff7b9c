package sources

import (
	"context"
	"sync"

	"github.com/conduit-agent/conduit/spec/notify"
)

// Inbox has the messages that were received: those to be read, and those that were read and not
// acknowledged. Make it with NewInbox. Whoever uses its fields has it locked.
type Inbox[M any] struct {
	sync.Mutex
	Queue []M // not read, in order
	Read  []M // read and not acknowledged, in order

	err     error // guarded by Mutex: why nothing comes any more
	arrived notify.Signal
}

// NewInbox returns an inbox without messages.
func NewInbox[M any]() *Inbox[M] { return &Inbox[M]{arrived: notify.NewSignal()} }

// Push appends a message to Queue. The caller has the inbox locked.
func (b *Inbox[M]) Push(m M) {
	b.Queue = append(b.Queue, m)
	b.arrived.Notify()
}

// Take waits for messages, moves all of Queue to Read and returns them. When there are none it
// returns the error of Fail, or that of ctx.
func (b *Inbox[M]) Take(ctx context.Context) ([]M, error) {
	for {
		if messages, err := b.next(); len(messages) > 0 || err != nil {
			return messages, err
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *Inbox[M]) next() ([]M, error) {
	b.Lock()
	defer b.Unlock()
	messages := b.Queue
	b.Queue = nil
	b.Read = append(b.Read, messages...)
	return messages, b.err
}

// Acknowledged removes the next n messages from Read, or all if there are fewer, and returns them. The
// caller has the inbox locked.
func (b *Inbox[M]) Acknowledged(n int) []M {
	n = min(n, len(b.Read))
	messages := b.Read[:n]
	b.Read = b.Read[n:]
	return messages
}

// Fail ends reading with err, after what was received.
func (b *Inbox[M]) Fail(err error) {
	b.Lock()
	defer b.Unlock()
	b.err = err
	b.arrived.Notify()
}
