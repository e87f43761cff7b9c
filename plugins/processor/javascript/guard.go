package javascript

import (
	"fmt"
	"log/slog"
	goruntime "runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
)

// guardTick is the interval between checks of a running call. Batches that take less time cost one Reset and one Stop
// of a timer.
var guardTick = 10 * time.Millisecond

// guardNow is the clock of guards; tests replace it.
var guardNow = time.Now

// guard interrupts calls of a script that take too long, and calls during which the memory of the process grows too
// much. The JavaScript engine does not count the memory of a script, so the guard measures the heap of the whole
// process.
type guard struct {
	timeout time.Duration
	late    error // of a call that exceeds timeout
	memory  uint64

	mu          sync.Mutex
	vm          *goja.Runtime // nil between batches
	calls       uint64        // number of calls begun
	interrupted bool
	stop        atomic.Bool // same as interrupted, for built-in functions
	timer       *time.Timer

	// the call that was seen last, and the time and heap when it was first seen
	seen  uint64
	since time.Time
	heap  uint64
	goal  uint64 // heap at which the collector starts

	allocated uint64 // bytes of large values since the last look at the heap
}

// begin starts to guard the calls of vm, until end.
func (g *guard) begin(vm *goja.Runtime) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vm, g.since = vm, time.Time{}
	g.calls++
	if g.timer == nil {
		g.timer = time.AfterFunc(guardTick, g.check)
	} else {
		g.timer.Reset(guardTick)
	}
}

// next begins the next call.
func (g *guard) next() {
	g.mu.Lock()
	g.calls++
	g.clear()
	g.mu.Unlock()
}

// largeValue is the minimum size in bytes of a value that allocate counts.
const largeValue = 64 << 10

// allocate bounds the running call when it is about to make a value of size bytes. Zeroed memory takes no time to
// allocate, so a loop could take gigabytes between two ticks.
func (g *guard) allocate(size uint64) {
	if size < largeValue {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vm == nil || g.interrupted || !g.seenBefore() {
		return
	}
	if g.allocated += size; g.allocated >= g.memory {
		g.allocated = 0
		g.checkMemory()
	}
}

// seenBefore reports whether the running call was seen before. If not, it records the time and the heap.
func (g *guard) seenBefore() bool {
	if g.seen == g.calls && !g.since.IsZero() {
		return true
	}
	g.seen, g.since, g.allocated = g.calls, guardNow(), 0
	g.heap, g.goal = heapSize(), heapMetric("/gc/heap/goal:bytes")
	return false
}

// isLarge reports whether a heap is larger than garbage explains. Garbage alone does not make it much larger than the
// goal of the collector, or than it was before the call.
func isLarge(heap, before, goal, memory uint64) bool { return heap > max(2*goal, before)+memory }

// checkMemory interrupts the running call if the heap has grown too much since it was first seen. When it is large, it
// does not wait for a collection, during which a script may double its memory several times.
func (g *guard) checkMemory() {
	now := heapSize()
	size, grown := now-min(g.heap, now), isLarge(now, g.heap, g.goal, g.memory)
	if !grown {
		size, grown = hasGrown(g.heap, g.memory)
	}
	if grown {
		g.interrupt(fmt.Errorf("the script takes too much memory: %d MiB more than before the call, at most %d may be",
			size>>20, g.memory>>20))
	}
}

func (g *guard) clear() {
	if g.interrupted {
		g.vm.ClearInterrupt()
		g.interrupted = false
		g.stop.Store(false)
	}
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	g.clear()
	g.vm = nil
}

// check bounds the running call, and schedules the next check.
func (g *guard) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vm == nil {
		return
	}
	defer g.timer.Reset(min(guardTick, g.timeout))
	if g.interrupted {
		return
	}
	switch {
	case !g.seenBefore():
	case guardNow().Sub(g.since) >= g.timeout:
		g.interrupt(g.late)
	default:
		g.checkMemory()
	}
}

func (g *guard) interrupt(reason error) {
	g.interrupted = true
	g.vm.Interrupt(reason)
	g.stop.Store(true)
}

// collecting lets one guard at a time collect garbage.
var collecting sync.Mutex

// hasGrown reports whether the heap, without garbage, is more than limit bytes larger than before, and by how much.
func hasGrown(before, limit uint64) (by uint64, grown bool) {
	if heapSize() <= before+limit {
		return 0, false
	}
	collecting.Lock()
	defer collecting.Unlock()
	if heapSize() <= before+limit {
		return 0, false
	}
	goruntime.GC()
	now := heapSize()
	return now - min(before, now), now > before+limit
}

func heapSize() uint64 { return heapMetric("/memory/classes/heap/objects:bytes") }

func heapMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// leakInterval is the number of calls after which the memory held by the global variables of a runtime is measured.
const leakInterval = 1024

// leak detects a runtime that holds too much memory between calls.
type leak struct {
	limit  uint64
	before uint64 // the heap to compare with
	exact  bool   // before excludes garbage
	calls  int
}

// found reports, after n more calls, whether to replace the runtime by an empty one.
func (l *leak) found(n int, log *slog.Logger) bool {
	if l.calls += n; l.calls < leakInterval {
		return false
	}
	l.calls = 0
	if l.before == 0 {
		l.before = heapMetric("/gc/heap/live:bytes")
	}
	l.before = min(l.before, heapSize())
	by, grown := hasGrown(l.before, l.limit)
	if !grown {
		return false
	}
	if !l.exact { // hasGrown has just collected the garbage
		l.before, l.exact = l.before+by, true
		return false
	}
	l.before, l.exact = 0, false
	log.Warn("the memory grew too much since the script began: it restarts with empty variables",
		"grown_bytes", by, "limit_bytes", l.limit)
	return true
}
