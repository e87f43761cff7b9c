package reconcile

import "context"

// mailbox passes functions to the goroutine of Loop.Run, which owns the state of all pipelines.
type mailbox struct {
	posts   chan func()
	workers int // goroutines that will still post; owned by Loop.Run
}

// post runs f in the goroutine of Loop.Run and returns afterwards.
func (m *mailbox) post(f func()) {
	done := make(chan struct{})
	m.posts <- func() { defer close(done); f() }
	<-done
}

// async runs f in a separate goroutine, and done in the goroutine of Loop.Run afterwards.
func (m *mailbox) async(f, done func()) {
	m.workers++
	go func() {
		f()
		m.posts <- func() { m.workers--; done() }
	}()
}

// send runs f in the goroutine of Loop.Run. It returns when f has begun, or with the error of ctx.
func (m *mailbox) send(ctx context.Context, f func()) error {
	select {
	case m.posts <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain runs the pending functions.
func (m *mailbox) drain() {
	for {
		select {
		case f := <-m.posts:
			f()
		default:
			return
		}
	}
}
