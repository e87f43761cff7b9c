package common

import (
	"context"
	"sync"

	"github.com/conduit-agent/conduit/spec/notify"
)

// Inbox holds received messages: unread ones, and read ones that are not acknowledged. NewInbox creates an Inbox.
// Callers must hold the lock to use the fields.
type Inbox[M any] struct {
	sync.Mutex
	Queue []M // unread, in order
	Read  []M // read and unacknowledged, in order

	err     error // guarded by Mutex: why receiving has ended
	arrived notify.Signal
}

// NewInbox returns an empty inbox.
func NewInbox[M any]() *Inbox[M] { return &Inbox[M]{arrived: notify.NewSignal()} }

// Push appends a message to Queue. The caller holds the lock.
func (b *Inbox[M]) Push(m M) {
	b.Queue = append(b.Queue, m)
	b.arrived.Notify()
}

// Take waits for messages, moves all of Queue to Read and returns them. If Queue is empty it returns the error passed
// to Fail, or the error of ctx.
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

// Acknowledged removes the next n messages from Read, or all if there are fewer, and returns them. The caller holds the
// lock.
func (b *Inbox[M]) Acknowledged(n int) []M {
	n = min(n, len(b.Read))
	messages := b.Read[:n]
	b.Read = b.Read[n:]
	return messages
}

// Fail makes Take return err after the received messages.
func (b *Inbox[M]) Fail(err error) {
	b.Lock()
	defer b.Unlock()
	b.err = err
	b.arrived.Notify()
}
