package process

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// rareCycles is the number of cycles of the collector per quietTime up to which a cycle more costs next to nothing.
	rareCycles = 1
	quietTime  = 10 * time.Second
	quietGC    = 60  // GOGC while cycles are rare
	usualGC    = 100 // GOGC otherwise, as the runtime has it
)

// TuneCollector keeps less garbage in memory while little is allocated, until ctx ends: then the collector rarely runs,
// and memory is worth more than its time. The runtime would let the heap grow to twice the memory in use before it
// collects, however long that takes.
func TuneCollector(ctx context.Context) {
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	before, now := cycles(), usualGC
	for {
		select {
		case <-ctx.Done():
			debug.SetGCPercent(usualGC)
			return
		case <-tick.C:
		}
		n := cycles()
		percent := percentFor(n - before)
		if percent != now {
			debug.SetGCPercent(percent)
		}
		before, now = n, percent
	}
}

// percentFor returns GOGC after this many cycles in quietTime.
func percentFor(cycles uint64) int {
	if cycles > rareCycles {
		return usualGC
	}
	return quietGC
}

// cycles returns how often the collector has run.
func cycles() uint64 {
	all := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(all)
	return all[0].Value.Uint64()
}
