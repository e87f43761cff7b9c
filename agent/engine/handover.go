package engine

import (
	"sync/atomic"
	"time"
)

// handoverLimit is how long a goroutine that is to read may take for a write. It is above the
// intervals of other timers, which wake a CPU anyway.
const handoverLimit = 100 * time.Millisecond

// handover lets the goroutine that reads from a source write, too, and has another one read on when that takes long. It
// watches the writes of one goroutine at a time.
type handover struct {
	// TakeOver is called once, in a goroutine of its own, when a write takes longer than Limit.
	TakeOver func()

	watch *writeWatch // owned by the goroutine that writes; nil: none that is not for an earlier write
}

// writeWatch is a timer, and what it is for.
type writeWatch struct {
	timer   *time.Timer
	writing atomic.Bool // a write goes on that was not taken over
}

// Do calls write. When TakeOver was called meanwhile, over is true: the caller is to leave
// reading to the other goroutine. That calls Do again only after this call returned.
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
	if !w.timer.Stop() { // its function is about to run, and would take the next write for this one
		h.watch = nil
	}
	return false, err
}
