package engine

import (
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

// DeadLetterWindow is a sliding window over the last size records that counts the refused ones.
// Once there are more than threshold, it stays exceeded.
type DeadLetterWindow struct {
	declared        *spec.DeadLetterQueue
	size, threshold int
	seen            int64   // records counted
	refused         []int64 // numbers of the refused ones within the window; at most threshold+1
	exceeded        bool
}

// NewDeadLetterWindow returns the window of a declared dead-letter queue, in which nothing was refused.
func NewDeadLetterWindow(declared *spec.DeadLetterQueue) DeadLetterWindow {
	w := DeadLetterWindow{declared: declared, size: declared.WindowSize, threshold: declared.WindowNackThreshold}
	if !declared.Tolerant() {
		w.size = 1 // the first refusal exceeds it, whatever its size
	}
	return w
}

// Err returns the error of a pipeline with more refused records than the window tolerates. It names the remedies.
func (w *DeadLetterWindow) Err() error {
	const exceeded = "the dead-letter queue's window-nack-threshold is exceeded: "
	if !w.declared.Tolerant() {
		return errors.New(exceeded + "it tolerates no refused record; correct the cause, or set window-size: 0 in " +
			"dead-letter-queue to tolerate any number")
	}
	return fmt.Errorf(exceeded+"more than %d of the latest %d records were refused; correct the cause, raise "+
		"window-nack-threshold, or set window-size: 0 in dead-letter-queue to tolerate any number",
		w.declared.WindowNackThreshold, w.declared.WindowSize)
}

// Ack counts n records that were not refused.
func (w *DeadLetterWindow) Ack(n int) { w.seen += int64(n) }

// Nack counts a refusal and reports whether it is tolerated.
func (w *DeadLetterWindow) Nack() bool {
	if w.size == 0 || w.exceeded {
		return !w.exceeded
	}
	w.seen++
	for len(w.refused) > 0 && w.refused[0] <= w.seen-int64(w.size) {
		w.refused = w.refused[1:]
	}
	w.refused = append(w.refused, w.seen)
	w.exceeded = len(w.refused) > w.threshold
	return !w.exceeded
}
