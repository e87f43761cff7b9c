// Package backpressure bounds how far sources may read ahead of slow destinations. It also schedules reads when more
// sources have records than the CPUs can serve.
package backpressure

// Window bounds the outstanding records of a source: the backpressure that slow destinations put on it. A batch may
// overshoot it.
type Window struct {
	// Unacked bounds the records read and not yet acknowledged, and so how many may be repeated after a crash. Of the
	// settled ones among them only the position is kept.
	Unacked int
	// Unsettled bounds the records held in memory until every destination has settled them.
	Unsettled int
	// Bytes bounds the memory of the held records (record.Batch.Memory).
	Bytes int
	// Shared is a bound for several sources together, nil for none.
	Shared *Shared
	// Scheduler grants read leases. If it is nil, a source reads whenever the window has space.
	Scheduler *Scheduler
}

// Default lets a source of a million small records per second run without a pause between two commits, and keeps the
// queues of the destinations short.
var Default = Window{Unacked: 1 << 17, Unsettled: 1 << 13, Bytes: 4 << 20}

// Wider returns a window of twice as many records for destinations whose writes overlap: records in a write, for
// example while a broker syncs them, are part of the outstanding ones.
func (w Window) Wider() Window {
	w.Unsettled, w.Bytes = 2*w.Unsettled, 2*w.Bytes
	return w
}

// Allows reports whether the window has space for another batch.
func (w *Window) Allows(unacked, unsettled uint64, held int) bool {
	return unacked < uint64(w.Unacked) && unsettled < uint64(w.Unsettled) && held < w.Bytes && w.Shared.allows(held)
}
