//go:build !minimal

package javascript

import (
	"slices"
	"sync"

	"github.com/dop251/goja"
)

// The engine counts the calls of functions that are written in JavaScript. Functions of the language that call each
// other, such as a toString that is String.prototype.trim, recurse on the Go stack only, and a Go stack that outgrows
// its limit ends the process. So each of them that calls what an object has for it counts itself.

// owners are the objects whose functions do that. Functions that only convert their arguments are not among them: they
// recurse through Function.prototype.bind alone, which counts what it makes.
var owners = goja.MustCompile("owners", `(() => {
	const proto = Object.getPrototypeOf, typed = proto(Uint8Array)
	return [Array.prototype, String.prototype, RegExp.prototype, Error.prototype, Object.prototype, Function.prototype,
		Promise.prototype, Date.prototype, Map.prototype, Set.prototype, ArrayBuffer.prototype, typed.prototype,
		Array, Promise, typed, proto([][Symbol.iterator]()), proto(new Map().entries()), proto(new Set().entries()), proto('x'.matchAll(/x/g)),
		proto(function* () {}).prototype, proto(proto([][Symbol.iterator]()))]
})()`, true)

// accessors is the accessor that calls others, and its owner.
var accessors = goja.MustCompile("accessors", `[
	[RegExp.prototype, "flags", Object.getOwnPropertyDescriptor(RegExp.prototype, "flags")],
	[Object.prototype, "__proto__", Object.getOwnPropertyDescriptor(Object.prototype, "__proto__")]]`, true)

// member is a function of the owner with that index.
type member struct {
	owner  int
	name   string
	symbol *goja.Symbol // instead of name
}

// members returns all functions of owners that are counted.
var members = sync.OnceValue(func() (found []member) {
	vm := goja.New()
	list, err := vm.RunProgram(owners)
	if err != nil {
		panic(err)
	}
	describe, _ := goja.AssertFunction(vm.Get("Object").(*goja.Object).Get("getOwnPropertyDescriptor"))
	symbols := []*goja.Symbol{goja.SymIterator, goja.SymMatch, goja.SymMatchAll, goja.SymReplace, goja.SymSearch, goja.SymSplit, goja.SymToPrimitive}
	for i, owner := range objects(list) {
		add := func(m member, key goja.Value) {
			d, err := describe(goja.Undefined(), owner, key)
			if err != nil || goja.IsUndefined(d) {
				return
			}
			f, ok := d.(*goja.Object).Get("value").(*goja.Object)
			// A constructor has a prototype. The engine matches faster as long as exec is its own.
			if ok && native(f) != nil && f.Get("prototype") == nil && m.name != "exec" && m.name != "constructor" {
				found = append(found, m)
			}
		}
		for _, name := range owner.GetOwnPropertyNames() {
			add(member{owner: i, name: name}, vm.ToValue(name))
		}
		for _, s := range symbols {
			add(member{owner: i, symbol: s}, s)
		}
	}
	return found
})

func objects(list goja.Value) (all []*goja.Object) {
	o := list.(*goja.Object)
	for _, key := range o.Keys() {
		all = append(all, o.Get(key).(*goja.Object))
	}
	return all
}

// native returns the Go function that f is, without what the engine does around a call from Go.
func native(f *goja.Object) func(goja.FunctionCall) goja.Value {
	raw, _ := f.Export().(func(goja.FunctionCall) goja.Value)
	return raw
}

// countCalls counts the calls of functions of the language.
func (b *bounds) countCalls() {
	list, err := b.vm.RunProgram(owners)
	if err != nil {
		b.keep(err)
		return
	}
	all, counted := objects(list), make(map[*goja.Object]*goja.Object)
	count := func(f *goja.Object) *goja.Object {
		if counted[f] == nil {
			counted[f] = b.named(b.count(native(f)), f)
			counted[counted[f]] = counted[f]
		}
		return counted[f]
	}
	for _, m := range members() {
		o := all[m.owner]
		if m.symbol != nil {
			b.keep(o.DefineDataPropertySymbol(m.symbol, count(o.GetSymbol(m.symbol).(*goja.Object)), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
		} else {
			b.define(o, m.name, count(o.Get(m.name).(*goja.Object)))
		}
	}
	b.countAccessors(count)
	b.countBound(counted)
	b.countProxies()
}

func (b *bounds) countAccessors(count func(*goja.Object) *goja.Object) {
	list, err := b.vm.RunProgram(accessors)
	if err != nil {
		b.keep(err)
		return
	}
	for _, a := range objects(list) {
		var get, set goja.Value
		d := a.Get("2").(*goja.Object)
		if f, ok := d.Get("get").(*goja.Object); ok {
			get = count(f)
		}
		if f, ok := d.Get("set").(*goja.Object); ok {
			set = count(f)
		}
		b.keep(a.Get("0").(*goja.Object).DefineAccessorProperty(a.Get("1").String(), get, set, goja.FLAG_TRUE, goja.FLAG_FALSE))
	}
}

// named returns f as a function with the name and length of original.
func (b *bounds) named(f func(goja.FunctionCall) goja.Value, original *goja.Object) *goja.Object {
	o := b.vm.ToValue(f).(*goja.Object)
	for _, name := range []string{"name", "length"} {
		b.keep(o.DefineDataProperty(name, original.Get(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	}
	return o
}

// count returns f, whose calls within each other are counted, and end when the script is interrupted.
func (b *bounds) count(f func(goja.FunctionCall) goja.Value) func(goja.FunctionCall) goja.Value {
	return func(c goja.FunctionCall) goja.Value {
		b.enter()
		defer b.leave()
		return f(c)
	}
}

func (b *bounds) enter() {
	b.throwInterrupted()
	if b.calls.depth >= maxCallDepth {
		b.throw("calls are nested too deep")
	}
	b.calls.depth++
}

func (b *bounds) leave() { b.calls.depth-- }

// throwInterrupted ends the script when it is interrupted, which the engine itself looks at in JavaScript only.
func (b *bounds) throwInterrupted() {
	if !b.guard.stop.Load() {
		return
	}
	if _, err := b.calls.empty(goja.Undefined()); err != nil {
		panic(err)
	}
}

// calls is shared by all bounds of a runtime.
type calls struct {
	depth int           // of functions of the language
	empty goja.Callable // a function in JavaScript that does nothing
}

func newCalls(vm *goja.Runtime) (*calls, error) {
	v, err := vm.RunProgram(emptyFunction)
	if err != nil {
		return nil, err
	}
	c := new(calls)
	c.empty, _ = goja.AssertFunction(v)
	return c, nil
}

var emptyFunction = goja.MustCompile("empty", "(() => {})", true)

// countBound counts the calls of what Function.prototype.bind makes of a function of the language that is not in counted.
func (b *bounds) countBound(counted map[*goja.Object]*goja.Object) {
	prototype := b.vm.Get("Function").(*goja.Object).Get("prototype").(*goja.Object)
	bind := prototype.Get("bind").(*goja.Object)
	text, raw := native(prototype.Get("toString").(*goja.Object)), native(bind)
	suffix := "() { [native code] }"
	b.define(prototype, "bind", b.named(func(c goja.FunctionCall) goja.Value {
		target, ok := c.This.(*goja.Object)
		if ok && native(target) != nil && counted[target] == nil && hasSuffix(text(goja.FunctionCall{This: target}), suffix) {
			c.This = b.countTarget(target)
		}
		return raw(c)
	}, bind))
}

func hasSuffix(v goja.Value, suffix string) bool {
	s, ok := v.(goja.String)
	return ok && s.Length() >= len(suffix) && s.Substring(s.Length()-len(suffix), s.Length()).String() == suffix
}

func (b *bounds) countTarget(target *goja.Object) goja.Value {
	call, construct := native(target), construct(target)
	config := &goja.ProxyTrapConfig{Apply: func(_ *goja.Object, this goja.Value, args []goja.Value) goja.Value {
		b.enter()
		defer b.leave()
		return call(goja.FunctionCall{This: this, Arguments: args})
	}}
	if construct != nil {
		config.Construct = func(_ *goja.Object, args []goja.Value, newTarget *goja.Object) *goja.Object {
			b.enter()
			defer b.leave()
			return construct(args, newTarget)
		}
	}
	return b.vm.ToValue(b.vm.NewProxy(target, config))
}

// construct returns nil when o is no constructor.
func construct(o *goja.Object) func(args []goja.Value, newTarget *goja.Object) *goja.Object {
	make, ok := goja.AssertConstructor(o)
	if !ok {
		return nil
	}
	return func(args []goja.Value, newTarget *goja.Object) *goja.Object {
		made, err := make(newTarget, args...)
		if err != nil {
			panic(err)
		}
		return made
	}
}

// traps are the functions of a handler of a Proxy, and those of Reflect that they stand for.
var traps = []string{"getPrototypeOf", "setPrototypeOf", "isExtensible", "preventExtensions", "getOwnPropertyDescriptor", "defineProperty",
	"has", "get", "set", "deleteProperty", "ownKeys", "apply", "construct"}

// countProxies counts the operations on proxies: a proxy and its target may be the prototypes of each other.
func (b *bounds) countProxies() {
	reflect, functions := b.vm.Get("Reflect").(*goja.Object), make(map[string]goja.Value)
	for _, name := range traps {
		plain := native(reflect.Get(name).(*goja.Object))
		functions[name] = b.vm.ToValue(b.count(func(c goja.FunctionCall) goja.Value {
			h := exportedValue(c.This).(*handler)
			v := h.own.Get(name)
			if isNothing(v) {
				return plain(c)
			}
			trap, ok := goja.AssertFunction(v)
			if !ok {
				panic(b.vm.NewTypeError("%s is not a function", name))
			}
			result, err := trap(h.own, c.Arguments...)
			if err != nil {
				panic(err)
			}
			return result
		}))
	}
	original := b.vm.Get("Proxy").(*goja.Object)
	make, revocable := construct(original), native(original.Get("revocable").(*goja.Object))
	handled := func(args []goja.Value) []goja.Value {
		if args = slices.Clone(args); len(args) > 1 {
			if own, ok := args[1].(*goja.Object); ok {
				args[1] = b.vm.NewDynamicObject(&handler{own: own, traps: functions})
			}
		}
		return args
	}
	proxy := b.vm.ToValue(func(c goja.ConstructorCall) *goja.Object { return make(handled(c.Arguments), nil) }).(*goja.Object)
	b.keep(proxy.DefineDataProperty("name", b.vm.ToValue("Proxy"), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	b.define(proxy, "revocable", b.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		return revocable(goja.FunctionCall{This: original, Arguments: handled(c.Arguments)})
	}))
	b.define(b.vm.GlobalObject(), "Proxy", proxy)
}

// handler stands for the handler of a Proxy, so that its traps are counted.
type handler struct {
	own   *goja.Object
	traps map[string]goja.Value
}

func (h *handler) Get(name string) goja.Value  { return h.traps[name] }
func (h *handler) Has(name string) bool        { return h.traps[name] != nil }
func (h *handler) Set(string, goja.Value) bool { return false }
func (h *handler) Delete(string) bool          { return false }
func (h *handler) Keys() []string              { return traps }
