package javascript

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// Limits of single calls, which cannot be interrupted. Texts and lists that a call makes are also limited by the memory
// of the script.
const (
	maxLength   = 16 << 20 // elements of a list
	maxPattern  = 64 << 10 // bytes of a regular expression: its compiler recurses into groups
	maxUnicode  = 256 << 10
	maxBits     = 100_000 // bits of a BigInt that is made of text, or the base of a power
	maxShift    = 1_000_000
	maxExponent = 1000
	longText    = 1 << 20 // matches in a longer text are found one by one
	longList    = 1000    // a longer list is sorted with a function
)

// elementBytes is the size of a list element, and partBytes that of a string that refers to a part of another.
const (
	elementBytes = 16
	partBytes    = 48
)

// checks returns the checks of built-in functions, by name.
func (n *natives) checks() map[string]check {
	all := make(map[string]check)
	add := func(owner string, f check, names ...string) {
		for _, name := range names {
			all[owner+name] = f
		}
	}
	add("Array.prototype.", n.readList, "indexOf", "lastIndexOf", "includes", "slice", "forEach", "map", "filter",
		"some",
		"every", "find", "findIndex", "findLast", "findLastIndex", "reduce", "reduceRight", "with", "toSpliced",
		"toReversed")
	add("Array.prototype.", n.changeList, "fill", "reverse", "splice", "shift", "unshift", "copyWithin")
	add("Array.prototype.", n.sort(n.changeList), "sort")
	add("Array.prototype.", n.sort(n.readList), "toSorted")
	add("Array.prototype.", n.join(n.readList), "join", "toLocaleString")
	add("TypedArray.prototype.", n.join(func(*goja.FunctionCall) goja.Value { return nil }), "join", "toLocaleString")
	add("Function.prototype.", n.listArgument(1), "apply")
	add("Reflect.", n.listArgument(2), "apply")
	add("Reflect.", n.listArgument(1), "construct")
	add("", n.iterable, "Array.from", "TypedArray.from")
	add("", n.newArray, "Array")
	add("", n.newBuffer, "ArrayBuffer")
	for name, size := range map[string]int64{"Uint8Array": 1, "Uint8ClampedArray": 1, "Int8Array": 1,
		"Uint16Array": 2, "Int16Array": 2, "Uint32Array": 4, "Int32Array": 4, "Float32Array": 4, "Float64Array": 8,
		"BigInt64Array": 8, "BigUint64Array": 8} {
		add("", n.newTypedArray(size), name)
	}
	add("String.prototype.", n.text(n.repeat), "repeat")
	add("String.prototype.", n.text(n.pad), "padStart", "padEnd")
	add("String.prototype.", n.text(n.concat), "concat")
	add("String.prototype.", n.text(n.collate), "normalize", "localeCompare")
	add("String.prototype.", n.text(n.splitText), "split")
	add("String.prototype.", n.text(func(c *goja.FunctionCall) { n.replaceText(c, false) }), "replace")
	add("String.prototype.", n.text(func(c *goja.FunctionCall) { n.replaceText(c, true) }), "replaceAll")
	n.addMatches(add)
	add("JSON.", n.stringify(), "stringify")
	add("JSON.", n.parse(), "parse")
	add("BigInt", n.bigInt, "")
	add("BigInt.", n.bigIntBits, "asIntN", "asUintN")
	add("Reflect.", n.prototype(1), "setPrototypeOf")
	add("Object.", n.prototype(1), "setPrototypeOf")
	add("Object.prototype.", n.prototype(0), "__proto__ set")
	add("", func(*goja.FunctionCall) goja.Value { panic(n.noCode()) }, "Function", "Function.prototype.constructor")
	return all
}

// noCode is the error of functions that compile text: operands in that code would not be checked.
func (n *natives) noCode() *goja.Object { return n.vm.NewTypeError("scripts cannot make code of text") }

// allocate throws if one call would make size bytes and this exceeds the memory of the script.
func (n *natives) allocate(size int64) {
	if uint64(max(size, 0)) > n.guard.memory {
		n.throw(fmt.Sprintf("%d bytes are too many: at most %d", size, n.guard.memory))
	}
	n.guard.allocate(uint64(max(size, 0)))
	n.throwInterrupted()
}

func (n *natives) limitLength(length int64) int64 {
	if length > maxLength {
		n.throw(fmt.Sprintf("%d is too long: at most %d", length, maxLength))
	}
	return max(length, 0)
}

// lengthOf returns the length that o claims to have.
func lengthOf(o *goja.Object) int64 {
	if length := o.Get("length"); length != nil {
		return length.ToInteger()
	}
	return 0
}

var proxyType = reflect.TypeFor[goja.Proxy]()

func isProxy(o *goja.Object) bool { return o.ExportType() == proxyType }

// isArray reports whether o is an Array: its length is a number that no code of the script computes.
func isArray(o *goja.Object) bool { return o.ClassName() == "Array" && !isProxy(o) }

// readable returns v if it is an Array or not an object, and otherwise an Array with the elements of v. The length of
// another object may be code of the script, which returns another number the second time.
func (n *natives) readable(v goja.Value) goja.Value {
	o, ok := v.(*goja.Object)
	if !ok {
		return v
	}
	length := n.limitLength(lengthOf(o))
	if isArray(o) {
		return v
	}
	list := n.vm.NewArray()
	for i := range length {
		n.throwInterrupted()
		name := strconv.FormatInt(i, 10)
		if e := o.Get(name); e != nil {
			n.keep(list.DefineDataProperty(name, e, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
		}
	}
	n.keep(list.Set("length", length))
	return list
}

func (n *natives) readList(c *goja.FunctionCall) goja.Value {
	c.This = n.readable(c.This)
	return nil
}

// changeList refuses to change a list whose length may be code of the script.
func (n *natives) changeList(c *goja.FunctionCall) goja.Value {
	o, ok := c.This.(*goja.Object)
	if !ok {
		return nil
	}
	if !isArray(o) && !n.hasPlainLength(o) {
		panic(n.vm.NewTypeError("the length of the list is no plain number"))
	}
	n.limitLength(lengthOf(o))
	return nil
}

// hasPlainLength reports whether the length of o, if any, is an own property that runs no code of the script.
func (n *natives) hasPlainLength(o *goja.Object) bool {
	if isProxy(o) {
		return false
	}
	property, ok := n.describe(goja.FunctionCall{Arguments: []goja.Value{o, n.vm.ToValue("length")}}).(*goja.Object)
	if !ok {
		return o.Get("length") == nil
	}
	v := property.Get("value")
	_, code := v.(*goja.Object)
	return v != nil && !code
}

func (n *natives) sort(list check) check {
	compare := n.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		n.throwInterrupted()
		return n.vm.ToValue(n.stringOf(c.Argument(0)).CompareTo(n.stringOf(c.Argument(1))))
	})
	return func(c *goja.FunctionCall) goja.Value {
		list(c)
		if o, ok := c.This.(*goja.Object); ok && goja.IsUndefined(c.Argument(0)) && lengthOf(o) > longList {
			c.Arguments = []goja.Value{compare}
		}
		return nil
	}
}

// join bounds the text of a list, after list. Lists in it are joined by calls of their own.
func (n *natives) join(list check) check {
	return func(c *goja.FunctionCall) goja.Value {
		list(c)
		o, ok := c.This.(*goja.Object)
		if !ok {
			return nil
		}
		length, between := lengthOf(o), int64(1)
		if !goja.IsUndefined(c.Argument(0)) {
			separator := n.stringOf(c.Argument(0))
			setArgument(c, 0, separator)
			between = int64(separator.Length())
		}
		size := multiply(length, between)
		if isArray(o) {
			for i := range length {
				if s, ok := o.Get(strconv.FormatInt(i, 10)).(goja.String); ok {
					size += int64(s.Length())
				}
			}
		}
		n.allocate(size)
		return nil
	}
}

// multiply returns the product of two lengths, or the greatest number.
func multiply(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/2/a {
		return math.MaxInt64 / 2
	}
	return a * b
}

// listArgument bounds argument i, a list of arguments for another function.
func (n *natives) listArgument(i int) check {
	return func(c *goja.FunctionCall) goja.Value {
		setArgument(c, i, n.readable(c.Argument(i)))
		return nil
	}
}

// iterable bounds an argument that is not iterable, but has a length.
func (n *natives) iterable(c *goja.FunctionCall) goja.Value {
	if o, ok := c.Argument(0).(*goja.Object); ok && isNullish(o.GetSymbol(goja.SymIterator)) {
		setArgument(c, 0, n.readable(o))
	}
	return nil
}

func (n *natives) newArray(c *goja.FunctionCall) goja.Value {
	if _, object := c.Argument(0).(*goja.Object); len(c.Arguments) == 1 && !object {
		if _, text := c.Argument(0).(goja.String); !text {
			n.allocate(elementBytes * n.limitLength(c.Argument(0).ToInteger()))
		}
	}
	return nil
}

func (n *natives) newBuffer(c *goja.FunctionCall) goja.Value {
	size := c.Argument(0).ToInteger()
	setArgument(c, 0, n.vm.ToValue(size))
	n.allocate(size)
	return nil
}

// newTypedArray bounds a typed array with elements of size bytes.
func (n *natives) newTypedArray(size int64) check {
	return func(c *goja.FunctionCall) goja.Value {
		if o, ok := c.Argument(0).(*goja.Object); ok {
			if _, buffer := exported(o).(goja.ArrayBuffer); !buffer {
				n.iterable(c)
			}
			return nil
		}
		if v := c.Argument(0); !isNullish(v) {
			length := v.ToInteger()
			setArgument(c, 0, n.vm.ToValue(length))
			n.allocate(size * n.limitLength(length))
		}
		return nil
	}
}

// text converts this to a string before check sees it. The conversion of an object may run code of the script, which
// could return a different string the second time.
func (n *natives) text(check func(*goja.FunctionCall)) check {
	return func(c *goja.FunctionCall) goja.Value {
		if !isNullish(c.This) {
			c.This, c.Arguments = n.stringOf(c.This), slices.Clone(c.Arguments)
			check(c)
		}
		return nil
	}
}

func (n *natives) repeat(c *goja.FunctionCall) {
	count := c.Argument(0).ToInteger()
	setArgument(c, 0, n.vm.ToValue(count))
	n.allocate(multiply(count, stringBytes(c.This)))
}

func (n *natives) pad(c *goja.FunctionCall) {
	length := c.Argument(0).ToInteger()
	setArgument(c, 0, n.vm.ToValue(length))
	if !goja.IsUndefined(c.Argument(1)) {
		setArgument(c, 1, n.stringOf(c.Argument(1)))
	}
	n.allocate(multiply(length, 2))
}

func (n *natives) concat(c *goja.FunctionCall) {
	size := int64(0)
	for i, v := range c.Arguments {
		c.Arguments[i] = n.stringOf(v)
		size += stringBytes(c.Arguments[i])
	}
	n.allocate(size)
}

// stringBytes returns the size of a string. The engine stores strings that are not ASCII in 16-bit units.
func stringBytes(v goja.Value) int64 {
	s, ok := v.(goja.String)
	if !ok {
		return 0
	}
	if reflect.TypeOf(s).Kind() == reflect.String {
		return int64(s.Length())
	}
	return 2 * int64(s.Length())
}

// collate bounds strings that are normalized or compared by the rules of a language, which takes microseconds for each
// code unit that is not ASCII.
func (n *natives) collate(c *goja.FunctionCall) {
	if o, ok := c.Argument(0).(*goja.Object); ok {
		c.Arguments[0] = n.stringOf(o)
	}
	for _, v := range []goja.Value{c.This, c.Argument(0)} {
		if size := stringBytes(v); size > 2*maxUnicode && size > int64(v.(goja.String).Length()) {
			n.throw("a text is too long to be normalized or compared")
		}
	}
}

// splitText bounds the parts of a text.
func (n *natives) splitText(c *goja.FunctionCall) {
	separator := c.Argument(0)
	if o, ok := separator.(*goja.Object); ok && isNullish(o.GetSymbol(goja.SymSplit)) {
		separator = n.stringOf(o)
		c.Arguments[0] = separator
	}
	s, ok := separator.(goja.String)
	if !ok || c.This.(goja.String).Length() < longText {
		return
	}
	limit := int64(math.MaxUint32)
	if v := c.Argument(1); !goja.IsUndefined(v) {
		limit = int64(uint32(v.ToInteger()))
		c.Arguments[1] = n.vm.ToValue(limit)
	}
	parts := int64(strings.Count(c.This.String(), s.String()))
	n.allocate(partBytes * min(limit, parts))
}

// replaceText bounds the text that a replacement makes. Without all, a text matches at most once. A regular expression
// matches at most once for each character.
func (n *natives) replaceText(c *goja.FunctionCall, all bool) {
	if len(c.Arguments) == 0 {
		return
	}
	if o, ok := c.Arguments[0].(*goja.Object); ok && isNullish(o.GetSymbol(goja.SymReplace)) {
		c.Arguments[0] = n.stringOf(o)
	}
	if _, ok := goja.AssertFunction(c.Argument(1)); ok {
		return // a replacement function can be interrupted
	}
	with := n.stringOf(c.Argument(1))
	c.Arguments = []goja.Value{c.Arguments[0], with}
	text, replacement := c.This.String(), with.String()
	matches := len(text) + 1
	if pattern, ok := c.Arguments[0].(goja.String); ok && !all {
		matches = 1
	} else if ok {
		matches = strings.Count(text, pattern.String())
	}
	size := multiply(int64(matches), int64(with.Length())) +
		multiply(int64(len(text)), int64(strings.Count(replacement, "$"))) // groups are parts of the text
	if strings.Contains(replacement, "$`") || strings.Contains(replacement, "$'") {
		size += multiply(int64(matches), int64(len(text)))
	}
	n.allocate(size)
}

// bigInt bounds a text that is converted to a BigInt, which takes time quadratic in its length.
func (n *natives) bigInt(c *goja.FunctionCall) goja.Value {
	if s, ok := c.Argument(0).(goja.String); ok && len(strings.TrimSpace(s.String())) > maxBits {
		n.throw("a text is too long for a BigInt")
	}
	return nil
}

// bigIntBits bounds the bits that are kept of a BigInt: a negative one gets as many.
func (n *natives) bigIntBits(c *goja.FunctionCall) goja.Value {
	bits := c.Argument(0).ToInteger()
	if bits > maxShift {
		n.throw("a BigInt is too large for this function")
	}
	setArgument(c, 0, n.vm.ToValue(bits))
	return nil
}

// prototype refuses a prototype, which is argument i, that is or inherits from a Proxy. A Proxy and its target could
// become prototypes of each other, and reading a member would recurse without a call of a function.
func (n *natives) prototype(i int) check {
	return func(c *goja.FunctionCall) goja.Value {
		for o, _ := c.Argument(i).(*goja.Object); o != nil; o = o.Prototype() {
			if isProxy(o) {
				panic(n.vm.NewTypeError("an object that exists cannot get a Proxy as its prototype"))
			}
		}
		return nil
	}
}
