package reconcile

import "context"

// mailbox hands functions to the goroutine of Loop.Run, which owns all that is known of the
// pipelines.
type mailbox struct {
	notes   chan func()
	workers int // goroutines that will still post; owned by Loop.Run
}

// post has note run in the goroutine of Loop.Run and returns afterwards.
func (m *mailbox) post(note func()) {
	done := make(chan struct{})
	m.notes <- func() { defer close(done); note() }
	<-done
}

// async runs f in a goroutine of its own, and done in the goroutine of Loop.Run afterwards.
func (m *mailbox) async(f, done func()) {
	m.workers++
	go func() {
		f()
		m.notes <- func() { m.workers--; done() }
	}()
}

// send has note run in the goroutine of Loop.Run. It returns when that has begun, or with the
// error of ctx.
func (m *mailbox) send(ctx context.Context, note func()) error {
	select {
	case m.notes <- note:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain runs what waits.
func (m *mailbox) drain() {
	for {
		select {
		case note := <-m.notes:
			note()
		default:
			return
		}
	}
}
