package sqlitefile

import "sync/atomic"

// Health is whether a file could be written when that was tried last. The zero Health is that of one that was not
// tried. Its methods may be called from any goroutine.
type Health struct {
	fault atomic.Pointer[error] // nil: it could
	past  atomic.Pointer[error] // the last fault since Past was called
}

// Failed takes note that the file could not be written.
func (h *Health) Failed(err error) {
	h.past.Store(&err)
	h.fault.Store(&err)
}

// Passed takes note that the file was written.
func (h *Health) Passed() { h.fault.Store(nil) }

// Fault returns why the file could not be written when that was tried last, nil if it was.
func (h *Health) Fault() error { return errorAt(h.fault.Load()) }

// Past returns why the file could not be written since Past was called last, nil if it always was.
func (h *Health) Past() error { return errorAt(h.past.Swap(nil)) }

func errorAt(p *error) error {
	if p == nil {
		return nil
	}
	return *p
}
