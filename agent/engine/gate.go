package engine

import "context"

// writeGate is held by the goroutine that writes to a destination, and during a pause. The destination's own writer
// receives from Requests before it writes, and passes a request to Yield.
type writeGate struct {
	held     chan struct{} // capacity 1: holds a token while the gate is held
	requests chan pauseRequest
}

// pauseRequest requests a pause.
type pauseRequest struct {
	begun    chan struct{}
	released <-chan struct{}
}

// newWriteGate returns a gate.
func newWriteGate() *writeGate {
	return &writeGate{held: make(chan struct{}, 1), requests: make(chan pauseRequest)}
}

// Lock waits for the gate.
func (g *writeGate) Lock() { g.held <- struct{}{} }

// TryLock reports whether it got the gate without waiting.
func (g *writeGate) TryLock() bool {
	select {
	case g.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock releases the gate.
func (g *writeGate) Unlock() { <-g.held }

// Requests returns the channel of requested pauses.
func (g *writeGate) Requests() <-chan pauseRequest { return g.requests }

// Yield holds the gate for the time of a pause.
func (g *writeGate) Yield(r pauseRequest) {
	g.Lock()
	defer g.Unlock()
	close(r.begun)
	<-r.released
}

// Pause waits until no write is in progress. No write begins until released is closed. begun is false when ended was
// closed first, or ctx has ended.
func (g *writeGate) Pause(ctx context.Context, ended, released <-chan struct{}) (begun bool, err error) {
	r := pauseRequest{make(chan struct{}), released}
	select {
	case g.requests <- r:
	case <-ended:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	select {
	case <-r.begun:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
