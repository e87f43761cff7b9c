package measure

import (
	"math"
	"sync/atomic"
	"time"
)

// Bounds of the histograms, upper and inclusive: bytes of a record, seconds of a call.
var (
	SizeBounds = []float64{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10,
		512 << 10, 1 << 20, 2 << 20}
	DurationBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
)

// Histogram counts values in buckets. It is read and written without a lock, so the parts of a reading may differ by a
// value.
type Histogram struct {
	buckets [13]atomic.Uint64 // the last one is for values above all bounds
	sum     atomic.Uint64     // bits of a float64
}

// Took counts a call that took d (DurationBounds).
func (h *Histogram) Took(d time.Duration) { h.Observe(DurationBounds, d.Seconds(), 1) }

// Observe counts n values of about v each.
func (h *Histogram) Observe(bounds []float64, v float64, n int) { h.add(bounds, v, v*float64(n), n) }

// ObserveMean counts n values whose sum is sum. All count as their mean.
func (h *Histogram) ObserveMean(bounds []float64, sum float64, n int) {
	if n > 0 {
		h.add(bounds, sum/float64(n), sum, n)
	}
}

func (h *Histogram) add(bounds []float64, v, sum float64, n int) {
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.buckets[i].Add(uint64(n))
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+sum)) {
			return
		}
	}
}

// Sum returns the number of values and their sum.
func (h *Histogram) Sum() (count uint64, sum float64) {
	for i := range h.buckets {
		count += h.buckets[i].Load()
	}
	return count, math.Float64frombits(h.sum.Load())
}

// Read returns the number of values, their sum, and for each bound the number of values within it.
func (h *Histogram) Read(bounds []float64) (count uint64, sum float64, within map[float64]uint64) {
	within = make(map[float64]uint64, len(bounds))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(bounds) {
			within[bounds[i]] = count
		}
	}
	return count, math.Float64frombits(h.sum.Load()), within
}
