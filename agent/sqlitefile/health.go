package sqlitefile

import "sync/atomic"

// Health records whether the last write of a file succeeded. The zero Health belongs to a file that was not written
// yet. Its methods may be called from any goroutine.
type Health struct {
	fault atomic.Pointer[error] // nil: the last write succeeded
	past  atomic.Pointer[error] // the last fault since Past was called
}

// Failed records a failed write.
func (h *Health) Failed(err error) {
	h.past.Store(&err)
	h.fault.Store(&err)
}

// Passed records a successful write.
func (h *Health) Passed() { h.fault.Store(nil) }

// Fault returns the error of the last write, or nil if it succeeded.
func (h *Health) Fault() error { return errorAt(h.fault.Load()) }

// Past returns the last error since the previous call of Past, or nil if all writes succeeded.
func (h *Health) Past() error { return errorAt(h.past.Swap(nil)) }

func errorAt(p *error) error {
	if p == nil {
		return nil
	}
	return *p
}
