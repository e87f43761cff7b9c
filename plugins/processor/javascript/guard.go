//go:build !minimal

package javascript

import (
	"fmt"
	"log/slog"
	goruntime "runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// maxTimeout is the greatest time limit of a script.
const maxTimeout = 10 * time.Second

// matching guards the time limit of regular expressions. They cannot be interrupted while they match, only be given a
// limit when they are made. It is above that of the script, which has been interrupted by then, so that what the engine
// makes of the limit, no match, is never seen.
var matching sync.Mutex

// limitMatches calls f, which makes regular expressions of a script with that limit. f must call nothing that may be code
// of a script: one that makes a regular expression in turn would wait for itself, and all other scripts for it.
func limitMatches(timeout time.Duration, f func()) {
	matching.Lock()
	defer matching.Unlock()
	regexp2.DefaultMatchTimeout = timeout + matchGrace
	f()
}

// matchGrace is how much longer than the script a regular expression may run.
var matchGrace = time.Second

// guardTick is how often a call that goes on is checked. Batches that take less time
// cost one Reset and one Stop of a timer.
var guardTick = 10 * time.Millisecond

// guard interrupts calls of a script that take too long, and those during which the memory
// of the process grows too much. The JavaScript engine does not count what a script holds,
// so the heap of the whole process has to stand for it.
type guard struct {
	timeout time.Duration
	late    error // of a call that takes longer
	memory  uint64

	mu          sync.Mutex
	vm          *goja.Runtime // nil between batches
	calls       uint64        // begun so far
	interrupted bool
	stop        atomic.Bool // as interrupted, for functions of the language
	timer       *time.Timer

	// what the timer saw last
	seen  uint64
	since time.Time
	heap  uint64 // when the call was first seen

	made     uint64 // bytes of large lists since the heap was last measured
	madeHeap uint64 // the heap before the first large list of the call; 0: there is none
}

// begin guards what vm runs until end.
func (g *guard) begin(vm *goja.Runtime) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vm, g.since, g.heap = vm, time.Time{}, 0
	g.madeHeap = 0
	g.calls++
	if g.timer == nil {
		g.timer = time.AfterFunc(guardTick, g.check)
	} else {
		g.timer.Reset(guardTick)
	}
}

// next begins another call.
func (g *guard) next() {
	g.mu.Lock()
	g.calls++
	g.madeHeap = 0
	g.clear()
	g.mu.Unlock()
}

// largeList is how many bytes a list has at least that make counts.
const largeList = 64 << 10

// make bounds the call that runs when it is about to make a list of n bytes. Memory that is zero
// to begin with costs no time, so a loop may take gigabytes of it between two ticks.
func (g *guard) make(n uint64) {
	if n < largeList {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vm == nil || g.interrupted {
		return
	}
	if g.madeHeap == 0 {
		g.made, g.madeHeap = 0, heapSize()
	}
	if g.made += n; g.made < g.memory {
		return
	}
	g.made = 0
	if size, grown := hasGrown(g.madeHeap, g.memory); grown {
		g.interrupt(g.tooMuch(size))
	}
}

func (g *guard) tooMuch(size uint64) error {
	return fmt.Errorf("the script takes too much memory: %d MiB more than before the call, at most %d may be", size>>20, g.memory>>20)
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

// check bounds the call that runs, and schedules the next check.
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
	if g.seen != g.calls || g.since.IsZero() {
		g.seen, g.since, g.heap = g.calls, time.Now(), heapSize()
		return
	}
	if time.Since(g.since) >= g.timeout {
		g.interrupt(g.late)
	} else if size, grown := hasGrown(g.heap, g.memory); grown {
		g.interrupt(g.tooMuch(size))
	}
}

func (g *guard) interrupt(reason error) {
	g.interrupted = true
	g.vm.Interrupt(reason)
	g.stop.Store(true)
}

// collecting lets one guard at a time collect garbage.
var collecting sync.Mutex

// hasGrown reports whether the heap holds more than limit bytes more than before, not
// counting garbage, and by how much.
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

// leakInterval is the number of calls after which the memory that a runtime may have
// gathered in its global variables is measured.
const leakInterval = 1024

// leak finds out when a runtime holds too much between calls.
type leak struct {
	limit  uint64
	before uint64 // the heap to compare with
	exact  bool   // before does not count garbage
	calls  int
}

// found reports, after n more calls, whether the runtime is to be replaced by an empty one.
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
	if !l.exact { // the garbage was collected just now
		l.before, l.exact = l.before+by, true
		return false
	}
	l.before, l.exact = 0, false
	log.Warn("the memory grew too much since the script began: it starts again with empty variables",
		"grown_bytes", by, "limit_bytes", l.limit)
	return true
}

// boundLengths makes functions of the language that go through as many elements as an
// object says it has, or make as much text, refuse great numbers: they cannot be
// interrupted.
func (b *bounds) boundLengths() {
	vm, array := b.vm, b.vm.Get("Array").(*goja.Object)
	b.methods(array.Get("prototype").(*goja.Object), b.this, "fill", "join", "concat", "indexOf", "lastIndexOf", "includes",
		"reverse", "sort", "slice", "splice", "shift", "unshift", "copyWithin", "flat", "toString", "toLocaleString",
		"forEach", "map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "reduce", "reduceRight", "flatMap",
		"with", "toSorted", "toSpliced", "toReversed")
	b.methods(array, b.argument(0), "from")
	b.methods(vm.Get("Function").(*goja.Object).Get("prototype").(*goja.Object), b.argument(1), "apply")
	b.methods(vm.Get("Reflect").(*goja.Object), b.argument(2), "apply")
	b.methods(vm.Get("String").(*goja.Object).Get("prototype").(*goja.Object), b.repeated, "repeat")
	b.methods(vm.Get("String").(*goja.Object).Get("prototype").(*goja.Object), b.argument(0), "padStart", "padEnd")
	for _, name := range []string{"Array", "ArrayBuffer", "Uint8Array", "Uint8ClampedArray", "Int8Array", "Uint16Array", "Int16Array",
		"Uint32Array", "Int32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"} {
		b.constructor(name)
	}
}

// bounds makes functions of the language throw where they would take too much.
type bounds struct {
	vm    *goja.Runtime
	guard *guard // of what they make
	calls *calls
	err   error
}

// boundFunctions bounds the functions of the language.
func boundFunctions(vm *goja.Runtime, g *guard) (*bounds, error) {
	c, err := newCalls(vm)
	if err != nil {
		return nil, err
	}
	b := &bounds{vm: vm, guard: g, calls: c}
	b.countCalls()
	b.boundLengths()
	b.boundNatives()
	b.boundPowers()
	b.boundSums()
	return b, b.err
}

// limit throws when v is a number, or an object with a length, above the limit.
func (b *bounds) limit(v goja.Value) { b.throwAbove(length(v)) }

// length returns v when it is a number, the length that it says it has when it is an object.
func length(v goja.Value) (n int64) {
	switch v := v.(type) {
	case nil:
	case *goja.Object:
		if length := v.Get("length"); length != nil {
			n = length.ToInteger()
		}
	default:
		if t := v.ExportType(); t != nil && (t.Kind().String() == "int64" || t.Kind().String() == "float64") {
			n = v.ToInteger()
		}
	}
	return n
}

func (b *bounds) throwAbove(n int64) {
	if n > maxLength {
		rangeError, err := b.vm.New(b.vm.Get("RangeError"), b.vm.ToValue(fmt.Sprintf("%d is too long: at most %d", n, maxLength)))
		if err != nil {
			panic(err)
		}
		panic(rangeError)
	}
}

func (b *bounds) this(c goja.FunctionCall) {
	if o, ok := c.This.(*goja.Object); ok {
		n := length(o)
		b.throwAbove(n)
		b.guard.make(elementBytes * uint64(max(n, 0)))
	}
}

// allocate throws when n bytes, which one operation is to make, are more than the script may have.
func (b *bounds) allocate(n uint64) {
	if n > b.guard.memory {
		b.throw(fmt.Sprintf("%d bytes are too many: at most %d", n, b.guard.memory))
	}
	b.guard.make(n)
}

func (b *bounds) argument(i int) func(goja.FunctionCall) {
	return func(c goja.FunctionCall) { b.limit(c.Argument(i)) }
}

func (b *bounds) repeated(c goja.FunctionCall) {
	if n := c.Argument(0).ToFloat(); n > 0 {
		size := int64(min(n*float64(max(1, len(c.This.String()))), 1<<60))
		b.throwAbove(size)
		b.allocate(uint64(size))
	}
}

// methods puts check before each of the functions of o.
func (b *bounds) methods(o *goja.Object, check func(goja.FunctionCall), names ...string) {
	for _, name := range names {
		original, ok := o.Get(name).(*goja.Object)
		if !ok {
			continue
		}
		raw := native(original)
		b.define(o, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			check(c)
			return raw(c)
		}), original))
	}
}

// constructor bounds what the global constructor may be called with.
func (b *bounds) constructor(name string) {
	original, ok := b.vm.Get(name).(*goja.Object)
	if !ok {
		return
	}
	make := construct(original)
	b.replace(name, original, func(args []goja.Value, newTarget *goja.Object) *goja.Object {
		b.limitFirst(args)
		return make(args, newTarget)
	})
}

// replace puts make in the place of the global constructor original.
func (b *bounds) replace(name string, original *goja.Object, make func(args []goja.Value, newTarget *goja.Object) *goja.Object) *goja.Object {
	var bounded *goja.Object
	bounded = b.vm.ToValue(func(c goja.ConstructorCall) *goja.Object {
		b.enter()
		defer b.leave()
		newTarget := c.NewTarget
		if newTarget == nil {
			newTarget = bounded
		}
		return make(slices.Clone(c.Arguments), newTarget)
	}).(*goja.Object)
	prototype := original.Get("prototype").(*goja.Object)
	b.keep(bounded.SetPrototype(original)) // for the static methods
	b.keep(bounded.DefineDataProperty("prototype", prototype, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	b.keep(bounded.DefineDataProperty("name", b.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	b.define(prototype, "constructor", bounded)
	b.define(b.vm.GlobalObject(), name, bounded)
	return bounded
}

// elementBytes is how large an element of a list is at most.
const elementBytes = 16

// limitFirst bounds a list that is made with one argument, which is its length or has one.
func (b *bounds) limitFirst(args []goja.Value) {
	if len(args) == 1 {
		n := length(args[0])
		b.throwAbove(n)
		b.allocate(elementBytes * uint64(max(n, 0)))
	}
}

func (b *bounds) define(o *goja.Object, name string, v goja.Value) {
	b.keep(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

func (b *bounds) keep(err error) {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("cannot bound the functions of the language: %w", err)
	}
}
