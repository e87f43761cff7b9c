package javascript

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/dop251/goja"
)

// The engine counts only calls of functions written in JavaScript. Built-in functions that call each other, such as a
// toString that is String.prototype.trim, recurse only on the Go stack, and the process ends when a Go stack outgrows
// its limit. Nor can a loop of the engine be interrupted if it calls a built-in function until the result changes, such
// as an exec of a regular expression that is Object. So each built-in function counts its calls.

// owners are the objects that have built-in functions.
var owners = goja.MustCompile("owners", `(() => {
	const proto = Object.getPrototypeOf, found = new Set([proto(Uint8Array), proto(Uint8Array).prototype, proto([][Symbol.iterator]()),
		proto(proto([][Symbol.iterator]())), proto(new Map().entries()), proto(new Set().entries()), proto('x'[Symbol.iterator]()),
		proto('x'.matchAll(/x/g)), proto(function* () {}).prototype, globalThis])
	for (const name of Object.getOwnPropertyNames(globalThis)) {
		const value = globalThis[name]
		if (value !== null && (typeof value === 'object' || typeof value === 'function')) {
			found.add(value)
			if (value.prototype) found.add(value.prototype)
		}
	}
	return [...found]
})()`, true)

// member is a function of the owner with that index.
type member struct {
	owner  int
	name   string
	symbol *goja.Symbol // used instead of name
	part   string       // part of the property's description
}

// members returns all functions of owners.
var members = sync.OnceValue(func() (found []member) {
	vm := goja.New()
	list, err := vm.RunProgram(owners)
	if err != nil {
		panic(err)
	}
	describe, _ := goja.AssertFunction(vm.Get("Object").(*goja.Object).Get("getOwnPropertyDescriptor"))
	ownKeys, _ := goja.AssertFunction(vm.Get("Reflect").(*goja.Object).Get("ownKeys"))
	seen := make(map[*goja.Object]bool)
	for i, owner := range objects(list) {
		v, err := ownKeys(goja.Undefined(), owner)
		if err != nil {
			panic(err)
		}
		keys := v.(*goja.Object)
		for k := range length(keys) {
			key := keys.Get(strconv.FormatInt(k, 10))
			d, err := describe(goja.Undefined(), owner, key)
			if err != nil {
				panic(err)
			}
			m := member{owner: i}
			if s, ok := key.(*goja.Symbol); ok {
				m.symbol = s
			} else {
				m.name = key.String()
			}
			for _, part := range []string{"value", "get", "set"} {
				if f, ok := d.(*goja.Object).Get(part).(*goja.Object); ok && native(f) != nil && !seen[f] {
					m.part, seen[f] = part, true
					found = append(found, m)
				}
			}
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

var functionType = reflect.TypeFor[func(goja.FunctionCall) goja.Value]()

// native returns the Go function behind f, without the code that the engine runs around a call from Go. It returns nil
// when f is not a function. native does not export other objects, because an export reads all members, which may run
// code of the script.
func native(f *goja.Object) func(goja.FunctionCall) goja.Value {
	if f.ExportType() != functionType {
		return nil
	}
	raw, _ := f.Export().(func(goja.FunctionCall) goja.Value)
	return raw
}

// countCalls counts the calls of built-in functions.
func (b *bounds) countCalls() {
	list, err := b.vm.RunProgram(owners)
	if err != nil {
		b.keep(err)
		return
	}
	all, counted := objects(list), make(map[*goja.Object]bool)
	describe, _ := goja.AssertFunction(b.vm.Get("Object").(*goja.Object).Get("getOwnPropertyDescriptor"))
	for _, m := range members() {
		var v goja.Value
		o := all[m.owner]
		switch {
		case m.part != "value" && m.symbol != nil:
			v, err = describe(goja.Undefined(), o, m.symbol)
		case m.part != "value":
			v, err = describe(goja.Undefined(), o, b.vm.ToValue(m.name))
		case m.symbol != nil:
			v = o.GetSymbol(m.symbol)
		default:
			v = o.Get(m.name)
		}
		b.keep(err)
		if d, ok := v.(*goja.Object); ok && m.part != "value" {
			v = d.Get(m.part)
		}
		if f, ok := v.(*goja.Object); ok && !counted[f] {
			b.keep(b.countInPlace(f))
			counted[f] = true
		}
	}
	b.countBound(counted)
	b.countProxies()
}

// countInPlace counts the calls of f without replacing the object. The engine has no API for that. A replacement for f
// would take longer to make, and the engine is many times faster while some functions, such as RegExp.prototype.exec
// and Array.prototype.values, are the original ones.
func (b *bounds) countInPlace(f *goja.Object) error {
	self := reflect.ValueOf(f).Elem().FieldByName("self")
	if self.Kind() == reflect.Interface && self.Elem().Kind() == reflect.Pointer && self.Elem().Elem().Kind() == reflect.Struct {
		field := self.Elem().Elem().FieldByName("f")
		if field.IsValid() && field.Type() == functionType {
			counted := reflect.ValueOf(b.count(native(f)))
			reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(counted)
			return nil
		}
	}
	return errors.New("a function of the JavaScript engine is not what it was")
}

// named returns f as a function with the name and length of original.
func (b *bounds) named(f func(goja.FunctionCall) goja.Value, original *goja.Object) *goja.Object {
	o := b.vm.ToValue(f).(*goja.Object)
	for _, name := range []string{"name", "length"} {
		b.keep(o.DefineDataProperty(name, original.Get(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	}
	return o
}

// count returns f with a counter for nested calls. The calls end when the script is interrupted.
func (b *bounds) count(f func(goja.FunctionCall) goja.Value) func(goja.FunctionCall) goja.Value {
	return func(c goja.FunctionCall) goja.Value {
		b.enter()
		defer b.leave()
		return f(c)
	}
}

// maxNativeDepth bounds the nesting of calls of built-in functions.
var maxNativeDepth = maxCallDepth

func (b *bounds) enter() {
	b.throwInterrupted()
	if b.calls.depth >= maxNativeDepth {
		b.throw("calls are nested too deep")
	}
	b.calls.depth++
}

func (b *bounds) leave() { b.calls.depth-- }

// throwInterrupted ends the script when it is interrupted. The engine itself checks this only in JavaScript code.
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
	depth int           // nesting depth of built-in functions
	empty goja.Callable // a JavaScript function that does nothing
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

// emptyName is the file name of functions that do not belong to the script. Errors of a script omit it.
const emptyName = "conduit"

var emptyFunction = goja.MustCompile(emptyName, "(() => {})", true)

// countBound counts the calls of functions that Function.prototype.bind makes from a built-in function not in counted.
func (b *bounds) countBound(counted map[*goja.Object]bool) {
	prototype := b.vm.Get("Function").(*goja.Object).Get("prototype").(*goja.Object)
	bind := prototype.Get("bind").(*goja.Object)
	text, raw := native(prototype.Get("toString").(*goja.Object)), native(bind)
	suffix := "() { [native code] }"
	b.define(prototype, "bind", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		target, ok := c.This.(*goja.Object)
		if ok && native(target) != nil && !counted[target] && hasSuffix(text(goja.FunctionCall{This: target}), suffix) {
			c.This = b.countTarget(target)
		}
		return raw(c)
	}), bind))
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

// construct returns the constructor o as a Go function, or nil if o is not a constructor.
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

// traps are the traps of a Proxy handler, which are also the names of the default functions in Reflect.
var traps = []string{"getPrototypeOf", "setPrototypeOf", "isExtensible", "preventExtensions", "getOwnPropertyDescriptor", "defineProperty",
	"has", "get", "set", "deleteProperty", "ownKeys", "apply", "construct"}

// countProxies counts the operations on proxies: a proxy and its target may be each other's prototypes.
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

// handler wraps the handler of a Proxy so that its traps are counted.
type handler struct {
	own   *goja.Object
	traps map[string]goja.Value
}

func (h *handler) Get(name string) goja.Value  { return h.traps[name] }
func (h *handler) Has(name string) bool        { return h.traps[name] != nil }
func (h *handler) Set(string, goja.Value) bool { return false }
func (h *handler) Delete(string) bool          { return false }
func (h *handler) Keys() []string              { return traps }
