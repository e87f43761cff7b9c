// Package backpressure bounds what sources may read ahead of slow destinations, and schedules who may read next when
// more sources have something to read than the CPUs can serve.
package backpressure

// Window bounds what may be outstanding from one source: the backpressure that slow
// destinations put on it. A batch may overshoot it.
type Window struct {
	// Unacked records are read and not yet acknowledged: as many may be repeated after a
	// crash. Of the settled ones among them only the position is kept.
	Unacked int
	// Unsettled records are held in memory until every destination has settled them.
	Unsettled int
	// Bytes is the memory that the records held take (record.Batch.Memory).
	Bytes int
	// Shared is a bound for several sources together, nil for none.
	Shared *Shared
	// Scheduler grants read leases, nil for reading whenever the window has space.
	Scheduler *Scheduler
}

// Default lets a source of a million small records a second run on between two
// commits, and keeps what waits for the destinations small.
var Default = Window{Unacked: 1 << 17, Unsettled: 1 << 13, Bytes: 4 << 20}

// Wider returns a window of twice as many records for destinations whose writes overlap: what they write at once, such as
// what a broker syncs, is a part of what is outstanding.
func (w Window) Wider() Window {
	w.Unsettled, w.Bytes = 2*w.Unsettled, 2*w.Bytes
	return w
}

// Allows reports whether the window has space for another batch.
func (w *Window) Allows(unacked, unsettled uint64, held int) bool {
	return unacked < uint64(w.Unacked) && unsettled < uint64(w.Unsettled) && held < w.Bytes && w.Shared.allows(held)
}
