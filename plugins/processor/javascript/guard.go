package javascript

import (
	"fmt"
	"log/slog"
	"reflect"
	goruntime "runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// maxTimeout is the greatest time limit of a script.
const maxTimeout = 10 * time.Second

// matching guards the time limit of regular expressions. A match cannot be interrupted; its limit is set when the
// expression is made. The limit is longer than the time limit of the script, so a script is already interrupted by then
// and never sees the result "no match" that the engine returns at the limit.
var matching sync.Mutex

// limitMatches calls f, which makes regular expressions of a script with the time limit timeout. f must not call code
// of a script: a script that makes a regular expression there would deadlock, and block all other scripts.
func limitMatches(timeout time.Duration, f func()) {
	matching.Lock()
	defer matching.Unlock()
	regexp2.DefaultMatchTimeout = timeout + matchGrace
	f()
}

// matchGrace is the matching time of a regular expression beyond the time limit of the script.
var matchGrace = time.Second

// guardTick is the interval between checks of a running call. Batches that take less time cost one Reset and one Stop
// of a timer.
var guardTick = 10 * time.Millisecond

// guard interrupts calls of a script that take too long, and calls during which the memory of the process grows too
// much. The JavaScript engine does not count the memory of a script, so the guard measures the heap of the whole
// process.
type guard struct {
	timeout time.Duration
	late    error // error for a call that exceeds timeout
	memory  uint64

	mu          sync.Mutex
	vm          *goja.Runtime // nil between batches
	calls       uint64        // number of calls begun
	interrupted bool
	stop        atomic.Bool // same as interrupted, for built-in functions
	timer       *time.Timer

	// state at the last tick of the timer
	seen  uint64
	since time.Time
	heap  uint64 // heap when the call was first seen

	made     uint64 // bytes of large lists since the last heap measurement
	madeHeap uint64 // heap before the first large list of the call; 0: no large list yet
}

// begin starts to guard the calls of vm, until end.
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

// next begins the next call.
func (g *guard) next() {
	g.mu.Lock()
	g.calls++
	g.madeHeap = 0
	g.clear()
	g.mu.Unlock()
}

// largeList is the minimum size in bytes of a list that make counts.
const largeList = 64 << 10

// make bounds the running call when it is about to make a list of n bytes. Zeroed memory takes no time to allocate, so
// a loop may take gigabytes between two ticks.
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
	log.Warn("the memory grew too much since the script began: it starts again with empty variables",
		"grown_bytes", by, "limit_bytes", l.limit)
	return true
}

// boundLengths makes built-in functions refuse large numbers if they walk as many elements as an object claims to have,
// or make as much text: they cannot be interrupted. The length of an object other than an Array may be a getter of the
// script, which returns another number the second time. The function is therefore called with a copy, or refuses such
// an object.
func (b *bounds) boundLengths() {
	vm, array := b.vm, b.vm.Get("Array").(*goja.Object)
	prototype := array.Get("prototype").(*goja.Object)
	b.lists(prototype, b.listed, "indexOf", "lastIndexOf", "includes", "slice", "forEach", "map", "filter", "some", "every", "find",
		"findIndex", "findLast", "findLastIndex", "reduce", "reduceRight", "flatMap", "with", "toSpliced", "toReversed", "toString",
		"flat", "join", "toLocaleString", "toSorted")
	b.lists(prototype, b.changed, "fill", "reverse", "sort", "splice", "shift", "unshift", "copyWithin")
	b.from(array)
	b.arguments(vm.Get("Function").(*goja.Object).Get("prototype").(*goja.Object), 1, "apply")
	b.arguments(vm.Get("Reflect").(*goja.Object), 2, "apply")
	b.arguments(vm.Get("Reflect").(*goja.Object), 1, "construct")
	text := vm.Get("String").(*goja.Object).Get("prototype").(*goja.Object)
	b.texts(text, b.repeated, "repeat")
	b.texts(text, b.padded, "padStart", "padEnd")
	for _, name := range []string{"Array", "ArrayBuffer", "Uint8Array", "Uint8ClampedArray", "Int8Array", "Uint16Array", "Int16Array",
		"Uint32Array", "Int32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"} {
		b.constructor(name)
	}
}

// bounds makes built-in functions throw when they would take too much time or memory.
type bounds struct {
	vm    *goja.Runtime
	guard *guard // bounds the memory that they allocate
	calls *calls
	err   error

	exact      *goja.Object // the prototype of an exactNumber
	exactToken string       // prefix of texts that replace numbers in JSON

	describe func(goja.FunctionCall) goja.Value // Object.getOwnPropertyDescriptor
}

// boundFunctions bounds the built-in functions.
func boundFunctions(vm *goja.Runtime, g *guard) (*bounds, error) {
	c, err := newCalls(vm)
	if err != nil {
		return nil, err
	}
	b := &bounds{vm: vm, guard: g, calls: c}
	b.describe = native(vm.Get("Object").(*goja.Object).Get("getOwnPropertyDescriptor").(*goja.Object))
	b.countCalls()
	b.boundLengths()
	b.boundNatives()
	b.boundPowers()
	b.boundSums()
	return b, b.err
}

// limit throws if v is a number above the limit, or an object with a length above it.
func (b *bounds) limit(v goja.Value) { b.throwAbove(length(v)) }

// length returns v if it is a number, or the length that v claims if it is an object.
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

// isArray reports whether o is an Array. The length of an Array is a number, which can change between two reads only if
// code runs in between. A Proxy is not an Array.
func isArray(o *goja.Object) bool {
	return o.ClassName() == "Array" && o.ExportType() != reflect.TypeFor[goja.Proxy]()
}

// listed returns v if it is an Array or not an object, and otherwise an Array with the elements of v.
func (b *bounds) listed(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	if !ok {
		return v
	}
	n := length(o)
	b.throwAbove(n)
	b.guard.make(elementBytes * uint64(max(n, 0)))
	if isArray(o) {
		return v
	}
	return b.arrayOf(b.elements(nil, o, n))
}

// elements appends the first n elements of o, nil for holes.
func (b *bounds) elements(to []goja.Value, o *goja.Object, n int64) []goja.Value {
	for i := range n {
		b.throwInterrupted()
		to = append(to, o.Get(strconv.FormatInt(i, 10)))
	}
	return to
}

// arrayOf returns an Array of elements, in which nil stands for a hole.
func (b *bounds) arrayOf(elements []goja.Value) goja.Value {
	made := b.vm.NewArray()
	b.keep(made.Set("length", len(elements)))
	for i, e := range elements {
		if e != nil {
			b.keep(made.DefineDataProperty(strconv.Itoa(i), e, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
		}
	}
	return made
}

// changed returns v for a function that changes the elements of v. It throws if v is an object whose length is not a
// plain number.
func (b *bounds) changed(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	if !ok {
		return v
	}
	if !isArray(o) && !b.hasPlainLength(o) {
		panic(b.vm.NewTypeError("the length of the list is no plain number"))
	}
	n := length(o)
	b.throwAbove(n)
	b.guard.make(elementBytes * uint64(max(n, 0)))
	return v
}

// hasPlainLength reports whether the length of o, if any, is an own property that runs no code of the script.
func (b *bounds) hasPlainLength(o *goja.Object) bool {
	if o.ExportType() == reflect.TypeFor[goja.Proxy]() {
		return false
	}
	property, ok := b.describe(goja.FunctionCall{Arguments: []goja.Value{o, b.vm.ToValue("length")}}).(*goja.Object)
	if !ok {
		return o.Get("length") == nil
	}
	v := property.Get("value")
	_, code := v.(*goja.Object)
	return v != nil && !code
}

// lists calls list before each of the named functions of o. list bounds the value and returns its replacement.
func (b *bounds) lists(o *goja.Object, list func(goja.Value) goja.Value, names ...string) {
	for _, name := range names {
		original, ok := o.Get(name).(*goja.Object)
		if !ok {
			continue
		}
		raw := native(original)
		b.define(o, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			return raw(goja.FunctionCall{This: list(c.This), Arguments: c.Arguments})
		}), original))
	}
}

// arguments bounds the list of arguments in argument i of a function of o, which passes them to another function.
func (b *bounds) arguments(o *goja.Object, i int, name string) {
	original := o.Get(name).(*goja.Object)
	raw := native(original)
	b.define(o, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
		if i < len(c.Arguments) {
			c.Arguments = slices.Clone(c.Arguments)
			c.Arguments[i] = b.listed(c.Arguments[i])
		}
		return raw(c)
	}), original))
}

// allocate throws if one operation would make n bytes and this exceeds the memory limit of the script.
func (b *bounds) allocate(n uint64) {
	if n > b.guard.memory {
		b.throw(fmt.Sprintf("%d bytes are too many: at most %d", n, b.guard.memory))
	}
	b.guard.make(n)
}

// repeated bounds String.prototype.repeat.
func (b *bounds) repeated(c *goja.FunctionCall) {
	n := c.Argument(0).ToInteger()
	c.Arguments = []goja.Value{b.vm.ToValue(n)}
	if n > 0 {
		size := int64(min(float64(n)*float64(max(1, len(c.This.String()))), 1<<60))
		b.throwAbove(size)
		b.allocate(uint64(size))
	}
}

// padded bounds String.prototype.padStart and padEnd.
func (b *bounds) padded(c *goja.FunctionCall) {
	n := c.Argument(0).ToInteger()
	b.throwAbove(n)
	b.allocate(2 * uint64(max(n, 0)))
	arguments := []goja.Value{b.vm.ToValue(n)}
	if filler := c.Argument(1); !goja.IsUndefined(filler) {
		arguments = append(arguments, b.textOf(filler))
	}
	c.Arguments = arguments
}

// texts calls bound before each of the named functions of a text. A text converted from an object may come from code of
// the script, which returns another text the second time: bound gets the text itself, and replaces arguments that are
// objects.
func (b *bounds) texts(o *goja.Object, bound func(*goja.FunctionCall), names ...string) {
	for _, name := range names {
		original := o.Get(name).(*goja.Object)
		raw := native(original)
		b.define(o, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			if !isNothing(c.This) {
				c.This, c.Arguments = b.textOf(c.This), slices.Clone(c.Arguments)
				bound(&c)
			}
			return raw(c)
		}), original))
	}
}

// from bounds Array.from, which may be called with another constructor.
func (b *bounds) from(array *goja.Object) {
	original := array.Get("from").(*goja.Object)
	raw := native(original)
	b.define(array, "from", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		c.Arguments = slices.Clone(c.Arguments)
		if o, ok := c.Argument(0).(*goja.Object); ok {
			if isNothing(o.GetSymbol(goja.SymIterator)) {
				c.Arguments[0] = b.listed(o)
			} else {
				b.limit(o)
			}
		}
		return raw(c)
	}), original))
}

// methods calls check before each of the named functions of o.
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

// constructor bounds the arguments of the global constructor name.
func (b *bounds) constructor(name string) {
	original, ok := b.vm.Get(name).(*goja.Object)
	if !ok {
		return
	}
	make := construct(original)
	b.replace(name, original, func(args []goja.Value, newTarget *goja.Object) *goja.Object {
		switch {
		case name == "Array" && len(args) == 1:
			b.bounded(args[0])
		case name == "ArrayBuffer" && len(args) > 0:
			args[0] = b.vm.ToValue(args[0].ToInteger())
			b.bounded(args[0])
		case name != "Array" && len(args) > 0:
			args[0] = b.bounded(b.listOrNumber(args[0]))
		}
		return make(args, newTarget)
	})
}

// replace replaces the global constructor original by make.
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
	b.inherit(bounded, original)
	b.keep(bounded.DefineDataProperty("prototype", prototype, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	b.keep(bounded.DefineDataProperty("name", b.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	b.define(prototype, "constructor", bounded)
	b.define(b.vm.GlobalObject(), name, bounded)
	return bounded
}

// statics copies the static members of a constructor.
var statics = goja.MustCompile(emptyName, `((to, from) => {
	Object.setPrototypeOf(to, Object.getPrototypeOf(from))
	for (const key of Reflect.ownKeys(from)) {
		const property = Object.getOwnPropertyDescriptor(from, key)
		if (key !== "prototype" && key !== "length" && key !== "name") Object.defineProperty(to, key, property)
	}
})`, true)

// inherit gives bounded the static members and the prototype of original, which scripts must not reach.
func (b *bounds) inherit(bounded, original *goja.Object) {
	v, err := b.vm.RunProgram(statics)
	if err != nil {
		b.keep(err)
		return
	}
	f, _ := goja.AssertFunction(v)
	_, err = f(goja.Undefined(), bounded, original)
	b.keep(err)
}

// elementBytes is the maximum size of a list element in bytes.
const elementBytes = 16

// bounded returns v, which is a length or an object with a length, and counts the memory of a list with that length.
func (b *bounds) bounded(v goja.Value) goja.Value {
	n := length(v)
	b.throwAbove(n)
	b.allocate(elementBytes * uint64(max(n, 0)))
	return v
}

// listOrNumber returns v if it is iterable, a buffer, null or undefined. It converts any other object to an Array of
// the elements that the object claims to have, and any other value to a number.
func (b *bounds) listOrNumber(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	switch {
	case !ok && !isNothing(v):
		return b.vm.ToValue(v.ToInteger())
	case !ok || !isNothing(o.GetSymbol(goja.SymIterator)):
		return v
	}
	if _, buffer := exported(o).(goja.ArrayBuffer); buffer {
		return v
	}
	return b.listed(o)
}

func (b *bounds) define(o *goja.Object, name string, v goja.Value) {
	b.keep(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

func (b *bounds) keep(err error) {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("cannot bound the functions of the language: %w", err)
	}
}
