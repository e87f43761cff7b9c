package javascript

import (
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dop251/goja"
)

// The engine interrupts, and counts the calls of, functions written in JavaScript only. Built-in functions that call
// each other, such as a toString that is String.prototype.trim, recurse on the Go stack alone, and the process ends
// when a Go stack outgrows its limit. So each built-in function counts its calls, and ends when the script is
// interrupted. What remains are single calls that take unbounded time or memory; checks.go has those.

// natives are the built-in functions of a runtime.
type natives struct {
	vm    *goja.Runtime
	guard *guard
	depth int           // nesting depth of calls
	empty goja.Callable // a JavaScript function that does nothing
	err   error         // the first error of keep

	// functions of prelude.js
	revive, splitLong, number goja.Callable

	describe   native           // Object.getOwnPropertyDescriptor
	rangeError goja.Constructor // that does not count its calls

	exact       *goja.Object // the prototype of an exactNumber
	exactPrefix string       // prefix of strings that replace numbers in JSON
}

// preludeName is the file name of prelude.js. Errors of a script omit it.
const preludeName = "conduit"

//go:embed prelude.js
var preludeText string

var prelude = program(preludeText)

// program returns a function that compiles a script of this package on first use.
func program(text string) func() *goja.Program {
	return sync.OnceValue(func() *goja.Program { return goja.MustCompile(preludeName, text, true) })
}

func newNatives(vm *goja.Runtime, g *guard) (*natives, error) {
	n := &natives{vm: vm, guard: g, describe: nativeOf(vm.Get("Object").(*goja.Object), "getOwnPropertyDescriptor")}
	n.rangeError, _ = goja.AssertConstructor(vm.Get("RangeError"))
	v, err := vm.RunProgram(prelude())
	if err != nil {
		return nil, err
	}
	for name, f := range map[string]*goja.Callable{"empty": &n.empty, "revive": &n.revive, "split": &n.splitLong,
		"number": &n.number} {
		*f, _ = goja.AssertFunction(v.(*goja.Object).Get(name))
	}
	return n, nil
}

// owners returns the paths of the objects that have built-in functions, and these objects, in turn. Its arguments are
// such objects to which no global variable refers.
var owners = program(`((...more) => {
	const parent = Object.getPrototypeOf, iterator = o => parent(o[Symbol.iterator]())
	const typed = parent(Uint8Array)
	const found = ["", globalThis, "TypedArray.", typed, "TypedArray.prototype.", typed.prototype]
	const add = o => found.push("", o)
	more.forEach(add)
	for (const o of [[], new Map(), new Set(), "x"]) { add(iterator(o)); add(parent(iterator(o))) }
	for (const o of ["x".matchAll(/x/g), (function* () {}).prototype]) add(parent(o))
	for (const f of [function () {}, function* () {}, async function () {}]) found.push("Function.prototype.", parent(f))
	for (const name of Object.getOwnPropertyNames(globalThis)) {
		const value = globalThis[name]
		if (value === null || typeof value !== "object" && typeof value !== "function") continue
		found.push(name + ".", value)
		if (value.prototype) found.push(name + ".prototype.", value.prototype)
	}
	return found
})`)

// members returns the built-in functions of owners: the number of the owner, the key, the part of the property, and the
// path of the function, in turn.
var members = program(`(owners => {
	const seen = new Set(), found = []
	for (let i = 0; i < owners.length; i += 2) for (const key of Reflect.ownKeys(owners[i + 1])) {
		const property = Object.getOwnPropertyDescriptor(owners[i + 1], key)
		for (const part of ["value", "get", "set"]) {
			const f = property[part]
			if (typeof f !== "function" || seen.has(f)) continue
			seen.add(f)
			found.push(i + 1, key, part, owners[i] + String(key) + (part === "value" ? "" : " " + part))
		}
	}
	return found
})`)

// member is a function that is part of a property of an object.
type member struct {
	owner int
	key   goja.Value // a symbol or a string
	part  string
	path  string
}

// allMembers is the same in all runtimes, and the first one finds it.
var allMembers atomic.Pointer[[]member]

func (n *natives) call(program *goja.Program, arguments ...goja.Value) ([]goja.Value, goja.Value) {
	v, err := n.vm.RunProgram(program)
	n.keep(err)
	f, _ := goja.AssertFunction(v)
	v, err = f(goja.Undefined(), arguments...)
	n.keep(err)
	var list []goja.Value
	n.vm.ForOf(v, func(v goja.Value) bool {
		list = append(list, v)
		return true
	})
	return list, v
}

// install makes all built-in functions, including those of the processor, count their calls and check their arguments.
// more are objects with functions that no global variable refers to.
func (n *natives) install(more ...goja.Value) error {
	owners, list := n.call(owners(), more...)
	all := allMembers.Load()
	if all == nil {
		all = new([]member)
		found, _ := n.call(members(), list)
		for m := range slices.Chunk(found, 4) {
			*all = append(*all, member{owner: int(m[0].ToInteger()), key: m[1], part: m[2].String(),
				path: m[3].String()})
		}
		allMembers.Store(all)
	}
	checks, checked := n.checks(), make(map[string]bool)
	for _, m := range *all {
		f, ok := n.function(owners[m.owner].(*goja.Object), m).(*goja.Object)
		if ok && f.ExportType() == functionType {
			n.keep(n.wrap(f, checks[m.path]))
			checked[m.path] = true
		}
	}
	for path := range checks {
		if !checked[path] {
			n.keep(fmt.Errorf("there is no function %s", path))
		}
	}
	return n.err
}

func (n *natives) function(owner *goja.Object, m member) goja.Value {
	symbol, isSymbol := m.key.(*goja.Symbol)
	switch {
	case m.part != "value":
		property := n.describe(goja.FunctionCall{Arguments: []goja.Value{owner, m.key}})
		return property.(*goja.Object).Get(m.part)
	case isSymbol:
		return owner.GetSymbol(symbol)
	}
	return owner.Get(m.key.String())
}

// native is a built-in function.
type native = func(goja.FunctionCall) goja.Value

var functionType = reflect.TypeFor[native]()

// nativeOf returns the Go function behind the built-in function o.Get(name).
func nativeOf(o *goja.Object, name string) native {
	f, _ := o.Get(name).Export().(native)
	return f
}

// check is called before a built-in function. It may replace the arguments. When it returns a value, that is the
// result.
type check func(*goja.FunctionCall) goja.Value

// wrap makes f count its calls, and call check if that is set. It changes f in place: the engine has no API for that,
// but is many times faster while functions such as RegExp.prototype.exec are the original objects.
func (n *natives) wrap(f *goja.Object, check check) error {
	self := reflect.ValueOf(f).Elem().FieldByName("self")
	if self.Kind() != reflect.Interface || self.Elem().Kind() != reflect.Pointer {
		return errChanged
	}
	fields := self.Elem().Elem()
	if fields.FieldByName("prg").IsValid() {
		return nil // a function of prelude.js
	}
	call, construct := fields.FieldByName("f"), fields.FieldByName("construct")
	if !call.IsValid() || !construct.IsValid() || call.Type() != functionType || construct.Type() != constructType {
		return errChanged
	}
	if p := (*native)(unsafe.Pointer(call.UnsafeAddr())); *p != nil {
		*p = n.counted(*p, check)
	}
	if p := (*constructor)(unsafe.Pointer(construct.UnsafeAddr())); *p != nil {
		*p = n.countedConstructor(*p, check)
	}
	return nil
}

var errChanged = errors.New("the functions of the JavaScript engine have another representation")

type constructor = func(arguments []goja.Value, newTarget *goja.Object) *goja.Object

var constructType = reflect.TypeFor[constructor]()

func (n *natives) counted(f native, check check) native {
	return func(c goja.FunctionCall) goja.Value {
		n.enter()
		defer n.leave()
		if check != nil {
			if v := check(&c); v != nil {
				return v
			}
		}
		return f(c)
	}
}

func (n *natives) countedConstructor(f constructor, check check) constructor {
	return func(arguments []goja.Value, newTarget *goja.Object) *goja.Object {
		n.enter()
		defer n.leave()
		if check != nil {
			c := goja.FunctionCall{Arguments: arguments}
			check(&c)
			arguments = c.Arguments
		}
		return f(arguments, newTarget)
	}
}

// maxNativeDepth bounds the nesting of calls of built-in functions.
var maxNativeDepth = maxCallDepth

func (n *natives) enter() {
	n.throwInterrupted()
	if n.depth >= maxNativeDepth {
		n.throw("calls are nested too deep")
	}
	n.depth++
}

func (n *natives) leave() { n.depth-- }

// throwInterrupted ends the script when it is interrupted. The engine itself checks this only in JavaScript code.
func (n *natives) throwInterrupted() {
	if !n.guard.stop.Load() {
		return
	}
	if _, err := n.empty(goja.Undefined()); err != nil {
		panic(err)
	}
}

// throw throws a RangeError.
func (n *natives) throw(message string) {
	thrown, err := n.rangeError(nil, n.vm.ToValue(message))
	if err != nil {
		panic(err)
	}
	panic(thrown)
}

// keep keeps the first error of the functions that define the environment of a script.
func (n *natives) keep(err error) {
	if n.err == nil && err != nil {
		n.err = fmt.Errorf("cannot bound the functions of the language: %w", err)
	}
}

func (n *natives) define(o *goja.Object, name string, v goja.Value) {
	n.keep(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// stringOf returns v as a string.
func (n *natives) stringOf(v goja.Value) goja.String {
	if o, ok := v.(*goja.Object); ok {
		v = o.ToString()
	}
	if s, ok := v.(goja.String); ok {
		return s
	}
	return n.vm.ToValue(v.String()).(goja.String)
}

// setArgument replaces argument i. The arguments of a call are part of the stack of the engine.
func setArgument(c *goja.FunctionCall, i int, v goja.Value) {
	if i < len(c.Arguments) {
		c.Arguments = slices.Clone(c.Arguments)
		c.Arguments[i] = v
	}
}
