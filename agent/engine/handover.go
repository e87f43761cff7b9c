package engine

import (
	"sync/atomic"
	"time"
)

// handoverLimit is the longest write of a goroutine that also reads. It is longer than the intervals of other timers,
// which wake a CPU anyway.
const handoverLimit = 100 * time.Millisecond

// handover lets the goroutine that reads from a source also write. If a write takes long, another goroutine takes over
// reading. A handover watches the writes of a single goroutine at a time.
type handover struct {
	// TakeOver is called once, in a new goroutine, when a write takes longer than handoverLimit.
	TakeOver func()

	watch *writeWatch // owned by the goroutine that writes; nil: Do makes a new one
}

// writeWatch is the timer of a write.
type writeWatch struct {
	timer   *time.Timer
	writing atomic.Bool // a write is in progress, and TakeOver was not called
}

// Do calls write. If TakeOver was called in the meantime, over is true and the caller must leave reading to the other
// goroutine, which calls Do only after this call has returned.
func (h *handover) Do(write func() error) (over bool, err error) {
	w := h.watch
	if w == nil {
		w = &writeWatch{}
		h.watch = w
	}
	w.writing.Store(true)
	if w.timer == nil {
		w.timer = time.AfterFunc(handoverLimit, func() {
			if w.writing.CompareAndSwap(true, false) {
				h.TakeOver()
			}
		})
	} else {
		w.timer.Reset(handoverLimit)
	}
	err = write()
	if !w.writing.CompareAndSwap(true, false) {
		return true, err
	}
	if !w.timer.Stop() { // its function is about to run, and must not apply to the next write
		h.watch = nil
	}
	return false, err
}
