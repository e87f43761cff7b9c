package sockets

import (
	"context"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Inbox holds received messages. It limits the number of unacknowledged messages, and the memory of unread ones.
// NewInbox creates an Inbox.
type Inbox struct {
	most   int
	buffer sdk.Buffer // memory budget of the host: messages of queue

	mu      sync.Mutex
	room    sync.Cond  // uses mu: messages were read or acknowledged, or the inbox is closed
	queue   []Received // guarded by mu: unread messages
	held    int        // guarded by mu: number of unacknowledged messages
	dropped int64      // guarded by mu
	closed  bool       // guarded by mu
	arrived notify.Signal
}

// NewInbox returns an inbox for at most most unacknowledged messages. Close frees the buffer.
func NewInbox(most int, buffer sdk.Buffer) *Inbox {
	b := &Inbox{most: most, buffer: buffer, arrived: notify.NewSignal()}
	b.room.L = &b.mu
	return b
}

// Put waits for room and queues the message. It returns false when the inbox is closed.
func (b *Inbox) Put(m Received) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && !b.fits(m) {
		b.room.Wait()
	}
	if !b.closed {
		b.push(m)
	}
	return !b.closed
}

// fits reports whether there is room and memory for the message. A message always fits into the memory of an empty
// queue.
func (b *Inbox) fits(m Received) bool {
	return b.held < b.most && (len(b.queue) == 0 || len(m.Message) <= b.buffer.Room())
}

// Offer queues the message, or drops it when there is no room.
func (b *Inbox) Offer(m Received) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(m) {
		b.dropped++
		return
	}
	b.push(m)
}

func (b *Inbox) push(m Received) {
	b.queue = append(b.queue, m)
	b.buffer.Add(len(m.Message))
	b.held++
	b.arrived.Notify()
}

// Take waits for unread messages and returns up to most messages.
func (b *Inbox) Take(ctx context.Context, most int) ([]Received, error) {
	for {
		b.mu.Lock()
		n := min(most, len(b.queue))
		all := b.queue[:n:n]
		if b.queue = b.queue[n:]; len(b.queue) > 0 {
			b.arrived.Notify()
		} else {
			b.queue = nil
		}
		for _, m := range all {
			b.buffer.Add(-len(m.Message))
		}
		b.room.Broadcast()
		b.mu.Unlock()
		if n > 0 {
			return all, nil
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ack makes room for n messages.
func (b *Inbox) Ack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = max(0, b.held-n)
	b.room.Broadcast()
}

// Counts returns the number of unacknowledged messages, and the number of messages that Offer has dropped.
func (b *Inbox) Counts() (held, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.held), b.dropped
}

// Close makes Put return false, and frees the memory.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.buffer.Close()
	b.room.Broadcast()
}
