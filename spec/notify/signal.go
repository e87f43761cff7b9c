// Package notify has small tools with which parts of the agent notify others of events: Signal wakes a goroutine,
// Broadcast any number of them, Throttle logs a failure that lasts.
package notify

// Signal wakes a goroutine that then examines everything: pending notifications are coalesced. It is a channel of
// capacity one to receive from; NewSignal creates one.
type Signal chan struct{}

// NewSignal returns a signal without a pending notification.
func NewSignal() Signal { return make(Signal, 1) }

// Notify makes the next receive succeed. It never blocks.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
