// Package handover lets the goroutine that reads from a source write, too, and has another
// one read on when that takes long.
package handover

import (
	"sync/atomic"
	"time"
)

// Limit is how long a goroutine that is to read may take for a write. It is above the
// intervals of other timers, which wake a CPU anyway.
const Limit = 100 * time.Millisecond

// Handover watches the writes of one goroutine at a time.
type Handover struct {
	// TakeOver is called once, in a goroutine of its own, when a write takes longer than Limit.
	TakeOver func()

	watch *watch // owned by the goroutine that writes; nil: none that is not for an earlier write
}

// watch is a timer, and what it is for.
type watch struct {
	timer   *time.Timer
	writing atomic.Bool // a write goes on that was not taken over
}

// Do calls write. When TakeOver was called meanwhile, over is true: the caller is to leave
// reading to the other goroutine. That calls Do again only after this call returned.
func (h *Handover) Do(write func() error) (over bool, err error) {
	w := h.watch
	if w == nil {
		w = &watch{}
		h.watch = w
	}
	w.writing.Store(true)
	if w.timer == nil {
		w.timer = time.AfterFunc(Limit, func() {
			if w.writing.CompareAndSwap(true, false) {
				h.TakeOver()
			}
		})
	} else {
		w.timer.Reset(Limit)
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
