package notify

import "sync"

// Broadcast notifies any number of listeners of a change. The zero Broadcast is ready for use.
type Broadcast struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil without listeners
}

// Next returns a channel that is closed at the next change.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Notify closes the channels that Next returned. It never blocks.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
