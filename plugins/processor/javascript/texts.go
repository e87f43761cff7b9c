package javascript

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// joins bounds the text that Array.prototype.join and similar functions make from a list and the lists in it.
func (b *bounds) joins(array *goja.Object) {
	var within []*goja.Object // the lists being converted to text
	var elements, text int    // remaining budget in the outermost list
	for _, name := range []string{"join", "toString", "toLocaleString"} {
		original := array.Get(name).(*goja.Object)
		raw := native(original)
		b.define(array, name, b.named(func(c goja.FunctionCall) goja.Value {
			b.enter()
			defer b.leave()
			if len(within) == 0 {
				elements, text = maxElements, maxMade
			}
			o, ok := c.This.(*goja.Object)
			if !ok || name == "toString" { // toString calls join
				return raw(c)
			}
			if slices.Contains(within, o) {
				panic(b.vm.NewTypeError("Converting circular structure to text"))
			}
			if len(within) >= maxNesting {
				b.throw("a list is nested too deep")
			}
			within = append(within, o)
			defer func() { within = within[:len(within)-1] }()
			o = b.listed(o).(*goja.Object)
			between := 1
			if s, ok := c.Argument(0).(goja.String); ok && name == "join" {
				between = s.Length()
			}
			b.joined(o, between, &elements, &text)
			return raw(goja.FunctionCall{This: o, Arguments: c.Arguments})
		}, original))
	}
}

// joined subtracts the text of the list o, without the lists in it, from the budgets elements and text.
func (b *bounds) joined(o *goja.Object, between int, elements, text *int) {
	n := length(o)
	b.throwAbove(n)
	*elements -= int(max(n, 0))
	if between > 0 && n > int64(maxMade/between) {
		*text = -1
	} else {
		*text -= int(max(n, 0)) * between
	}
	if o.ClassName() == "Array" && *elements >= 0 && *text >= 0 {
		for i := range n {
			if s, ok := o.Get(strconv.FormatInt(i, 10)).(goja.String); ok {
				*text -= s.Length()
			}
		}
	}
	if *elements < 0 || *text < 0 {
		b.throw("a list or a text is too long")
	}
}

// concatenates replaces Array.prototype.concat by a function that can be interrupted, because an argument may claim any
// length. The result is always an Array.
func (b *bounds) concatenates(array *goja.Object) {
	original := array.Get("concat").(*goja.Object)
	isArray := native(b.vm.Get("Array").(*goja.Object).Get("isArray").(*goja.Object))
	spreads := func(o *goja.Object) bool {
		if v := o.GetSymbol(goja.SymIsConcatSpreadable); v != nil && !goja.IsUndefined(v) {
			return v.ToBoolean()
		}
		return isArray(goja.FunctionCall{Arguments: []goja.Value{o}}).ToBoolean()
	}
	b.define(array, "concat", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		var elements []goja.Value
		for _, v := range append([]goja.Value{c.This.ToObject(b.vm)}, c.Arguments...) {
			o, ok := v.(*goja.Object)
			if !ok || !spreads(o) {
				elements = append(elements, v)
				continue
			}
			n := length(o)
			b.throwAbove(n + int64(len(elements)))
			b.guard.make(elementBytes * uint64(max(n, 0)))
			elements = b.elements(elements, o, n)
		}
		return b.arrayOf(elements)
	}), original))
}

// rawTexts replaces String.raw by a function that can be interrupted, because its argument may claim any length.
func (b *bounds) rawTexts(text *goja.Object) {
	original := text.Get("raw").(*goja.Object)
	b.define(text, "raw", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		parts := c.Argument(0).ToObject(b.vm).Get("raw")
		if parts == nil {
			parts = goja.Undefined()
		}
		list := parts.ToObject(b.vm)
		n := length(list)
		b.throwAbove(n)
		var out goja.StringBuilder
		size := 0
		add := func(v goja.Value) {
			b.throwInterrupted()
			if v == nil {
				v = goja.Undefined()
			}
			s := b.textOf(v)
			if size += s.Length() * unitBytes(s); uint64(size+size/2) > b.guard.memory {
				b.throw("a text is too long")
			}
			out.WriteString(s)
		}
		for i := range n {
			add(list.Get(strconv.FormatInt(i, 10)))
			if i+1 < n && int(i)+1 < len(c.Arguments) {
				add(c.Arguments[i+1])
			}
		}
		return out.String()
	}), original))
}

// flattens bounds the depth of Array.prototype.flat, and the number of elements it makes.
func (b *bounds) flattens(array *goja.Object) {
	original := array.Get("flat").(*goja.Object)
	raw := native(original)
	b.define(array, "flat", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		m := measure{bounds: b, elements: maxElements, text: maxMade}
		m.add(c.This, 0)
		c.Arguments = slices.Clone(c.Arguments)
		if len(c.Arguments) > 0 {
			c.Arguments[0] = b.vm.ToValue(min(c.Arguments[0].ToInteger(), maxNesting))
		}
		return raw(c)
	}), original))
}

// flatMaps bounds the lists that the callback of Array.prototype.flatMap returns.
func (b *bounds) flatMaps(array *goja.Object) {
	original := array.Get("flatMap").(*goja.Object)
	raw := native(original)
	b.define(array, "flatMap", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		c.Arguments = slices.Clone(c.Arguments)
		if f, ok := goja.AssertFunction(c.Argument(0)); ok {
			c.Arguments[0] = b.vm.ToValue(func(c goja.FunctionCall) goja.Value {
				v, err := f(c.This, c.Arguments...)
				if err != nil {
					panic(err)
				}
				if o, ok := v.(*goja.Object); ok && o.ClassName() == "Array" {
					return b.listed(o)
				}
				return v
			})
		}
		return raw(c)
	}), original))
}

// stringifies bounds JSON.stringify with a replacer, which the engine calls for each value that it visits.
func (b *bounds) stringifies(json *goja.Object) {
	original := json.Get("stringify").(*goja.Object)
	raw := native(original)
	b.define(json, "stringify", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		s := stringifier{bounds: b, elements: maxElements, text: maxMade}
		if o, ok := c.Argument(1).(*goja.Object); ok {
			if s.replacer, ok = goja.AssertFunction(o); !ok && o.ClassName() == "Array" {
				s.names = propertyNames(o)
			}
		}
		s.indent = 10
		if gap := c.Argument(2); isNothing(gap) {
			s.indent = 0
		}
		text := raw(goja.FunctionCall{This: c.This,
			Arguments: []goja.Value{c.Argument(0), b.vm.ToValue(s.replace), c.Argument(2)}})
		if s.exact {
			return b.vm.ToValue(b.unmarkExact(text.String()))
		}
		return text
	}), original))
}

// propertyNames returns the names in the second argument of JSON.stringify.
func propertyNames(list *goja.Object) []string {
	names := []string{}
	for i := range min(length(list), maxElements) {
		v := list.Get(strconv.FormatInt(i, 10))
		if o, ok := v.(*goja.Object); isNothing(v) || ok && o.ClassName() != "String" && o.ClassName() != "Number" {
			continue
		}
		if _, ok := v.Export().(bool); !ok && !slices.Contains(names, v.String()) {
			names = append(names, v.String())
		}
	}
	return names
}

// stringifier is one call of JSON.stringify.
type stringifier struct {
	*bounds
	replacer       goja.Callable // replacer of the script
	names          []string      // nil: all
	indent         int           // bytes of indentation for each level, at most
	elements, text int           // remaining budget
	exact          bool          // there are numbers marked by markExact
	open           []opened      // the objects being visited
}

type opened struct{ holder, original *goja.Object }

func (s *stringifier) replace(c goja.FunctionCall) goja.Value {
	s.throwInterrupted()
	holder, _ := c.This.(*goja.Object)
	for len(s.open) > 0 && s.open[len(s.open)-1].holder != holder {
		s.open = s.open[:len(s.open)-1]
	}
	key, v := c.Argument(0), c.Argument(1)
	if s.replacer != nil {
		replaced, err := s.replacer(c.This, key, v)
		if err != nil {
			panic(err)
		}
		v = replaced
	}
	if isExact(v) {
		var digits int
		v, digits = s.markExact(v)
		s.exact = true
		s.text -= digits
	}
	s.elements--
	s.text -= 8 + textLength(key) + textLength(v) + s.indent*(len(s.open)+1)
	if s.elements < 0 || s.text < 0 {
		s.throw("an object is too large for a text")
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return v
	}
	for _, e := range s.open {
		if e.original == o {
			panic(s.vm.NewTypeError("Converting circular structure to JSON"))
		}
	}
	if len(s.open) > maxNesting {
		s.throw("an object is nested too deep")
	}
	shown := o
	if s.names != nil && o.ClassName() != "Array" && native(o) == nil {
		shown = s.selected(o)
	}
	s.open = append(s.open, opened{holder: shown, original: o})
	return shown
}

// selected returns an object with the named members of o.
func (s *stringifier) selected(o *goja.Object) *goja.Object {
	switch o.ClassName() {
	case "Number", "String", "Boolean":
		return o
	}
	out := s.vm.NewObject()
	for _, name := range s.names {
		if v := o.Get(name); v != nil {
			s.keep(out.Set(name, v))
		}
	}
	return out
}

// textLength returns the length of a text in JSON, in bytes.
func textLength(v goja.Value) (n int) {
	s, ok := v.(goja.String)
	if !ok {
		return 0
	}
	if n = s.Length(); n > maxMade/6 {
		return maxMade + 1
	}
	for _, r := range s.String() {
		switch {
		case r < 0x20:
			n += 5
		case r >= 0x80:
			n += 2
		case r == '"' || r == '\\':
			n++
		}
	}
	return n
}

// parses bounds JSON.parse, which may make large values before a script can be interrupted.
func (b *bounds) parses(json *goja.Object) {
	original := json.Get("parse").(*goja.Object)
	raw := native(original)
	b.define(json, "parse", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		text := b.textOf(c.Argument(0))
		b.measureJSON(text.String())
		arguments := []goja.Value{text}
		if marked, changed := b.markNumbers(text.String()); changed {
			arguments = []goja.Value{b.vm.ToValue(marked), b.vm.ToValue(func(c goja.FunctionCall) goja.Value {
				return b.unmarkNumber(c.Argument(1))
			})}
		}
		v := raw(goja.FunctionCall{This: c.This, Arguments: arguments})
		reviver, ok := goja.AssertFunction(c.Argument(1))
		if !ok {
			return v
		}
		root := b.vm.NewObject()
		b.keep(root.Set("", v))
		return b.revive(root, "", reviver, 0)
	}), original))
}

// bytesOfObject and bytesOfValue are the minimum memory of values that JSON.parse makes, in bytes.
const (
	bytesOfObject = 256
	bytesOfValue  = 48
)

// measureJSON throws if the values of a JSON text are nested too deep, or take more memory than the script may have.
func (b *bounds) measureJSON(text string) {
	depth, size, quoted := 0, uint64(0), false
	for i := 0; i < len(text); i++ {
		switch char := text[i]; {
		case char == '\\' && quoted:
			i++
		case char == '"':
			quoted = !quoted
		case quoted:
		case char == '[' || char == '{':
			if depth++; depth > 10*maxNesting {
				b.throw("JSON is nested too deep")
			}
			size += bytesOfObject
		case char == ']' || char == '}':
			depth--
		case char == ',' || char == ':':
			size += bytesOfValue
		}
	}
	if size > b.guard.memory {
		b.throw("the values of a JSON text take too much memory")
	}
	b.guard.make(size)
}

// revive applies the second argument of JSON.parse to the values in holder, innermost first.
func (b *bounds) revive(holder *goja.Object, key string, reviver goja.Callable, depth int) goja.Value {
	if depth > 10*maxNesting {
		b.throw("JSON is nested too deep")
	}
	v := holder.Get(key)
	if o, ok := v.(*goja.Object); ok {
		keys := o.Keys()
		if o.ClassName() == "Array" {
			n := length(o)
			b.throwAbove(n)
			keys = make([]string, n)
			for i := range keys {
				keys[i] = strconv.Itoa(i)
			}
		}
		for _, k := range keys {
			if made := b.revive(o, k, reviver, depth+1); made == nil || goja.IsUndefined(made) {
				_ = o.Delete(k)
			} else {
				_ = o.DefineDataProperty(k, made, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE)
			}
		}
	}
	if v == nil {
		v = goja.Undefined()
	}
	made, err := reviver(holder, b.vm.ToValue(key), v)
	if err != nil {
		panic(err)
	}
	return made
}

// sorts makes Array.prototype.sort compare long lists with a function that ends when the script is interrupted.
func (b *bounds) sorts(array *goja.Object) {
	compare := b.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		b.throwInterrupted()
		return b.vm.ToValue(b.textOf(c.Argument(0)).CompareTo(b.textOf(c.Argument(1))))
	})
	for _, name := range []string{"sort", "toSorted"} {
		original, ok := array.Get(name).(*goja.Object)
		if !ok {
			continue
		}
		raw := native(original)
		b.define(array, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			if o, ok := c.This.(*goja.Object); ok && goja.IsUndefined(c.Argument(0)) && length(o) > 1000 {
				c.Arguments = []goja.Value{compare}
			}
			return raw(c)
		}), original))
	}
}

// textOf returns v as a text.
func (b *bounds) textOf(v goja.Value) goja.String {
	if o, ok := v.(*goja.Object); ok {
		v = o.ToString()
	}
	if s, ok := v.(goja.String); ok {
		return s
	}
	return b.vm.ToValue(v.String()).(goja.String)
}

// maxPattern bounds the length of a regular expression.
const maxPattern = 1 << 20

// patterns bounds the regular expressions that are made at run time. Their compilers recurse into groups.
func (b *bounds) patterns(text *goja.Object) {
	original := b.vm.Get("RegExp").(*goja.Object)
	make := construct(original)
	var constructor *goja.Object
	constructor = b.replace("RegExp", original, func(args []goja.Value, newTarget *goja.Object) (o *goja.Object) {
		args = b.patternAndFlags(args)
		limitMatches(b.guard.timeout, func() { o = make(args, nil) })
		if newTarget != constructor {
			if p, ok := newTarget.Get("prototype").(*goja.Object); ok {
				b.keep(o.SetPrototype(p))
			}
		}
		return o
	})
	for name, flags := range map[string]string{"match": "", "matchAll": "g", "search": ""} {
		original := text.Get(name).(*goja.Object)
		raw := native(original)
		b.define(text, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			if s, ok := c.Argument(0).(goja.String); ok {
				pattern, err := b.vm.New(constructor, s, b.vm.ToValue(flags))
				if err != nil {
					panic(err)
				}
				c.Arguments = []goja.Value{pattern}
			}
			return raw(c)
		}), original))
	}
	prototype := original.Get("prototype").(*goja.Object)
	compile := prototype.Get("compile").(*goja.Object)
	raw := native(compile)
	b.define(prototype, "compile", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		args := b.patternAndFlags(c.Arguments)
		var compiled *goja.Object
		limitMatches(b.guard.timeout, func() { compiled = make(args, nil) })
		return raw(goja.FunctionCall{This: c.This, Arguments: []goja.Value{compiled}})
	}), compile))
}

// patternAndFlags returns the arguments of RegExp as texts, because converting an argument or reading its members may
// run code of the script.
func (b *bounds) patternAndFlags(args []goja.Value) []goja.Value {
	call := goja.FunctionCall{Arguments: args}
	pattern, flags := call.Argument(0), call.Argument(1)
	if o, ok := pattern.(*goja.Object); ok && o.ClassName() == "RegExp" {
		if pattern = o.Get("source"); goja.IsUndefined(flags) {
			flags = o.Get("flags")
		}
	}
	texts := []goja.Value{b.vm.ToValue(""), b.vm.ToValue("")}
	for i, v := range []goja.Value{pattern, flags} {
		if v != nil && !goja.IsUndefined(v) {
			texts[i] = b.textOf(v)
		}
	}
	b.checkPattern(texts[0].String())
	return texts
}

func (b *bounds) checkPattern(s string) {
	if len(s) > maxPattern {
		b.throw("a regular expression is too long")
	}
	if nestedGroups(s) > maxNesting {
		b.throw("a regular expression is nested too deep")
	}
}

// nestedGroups returns the nesting depth of the unescaped parentheses in a regular expression. In a class such as [()]
// parentheses are literals: a closing one is ignored there, and an opening one is counted, which errs on the safe side.
func nestedGroups(s string) (most int) {
	depth, class := 0, false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '(':
			depth++
			most = max(most, depth)
		case ')':
			if !class {
				depth = max(0, depth-1)
			}
		}
	}
	return most
}

// longText is the length from which the matches in a text are found one by one, so that a script can be interrupted.
// Otherwise the engine collects all matches of a text at once.
const longText = 1 << 20

// matches bounds the matches of regular expressions in long texts.
func (b *bounds) matches() {
	constructor := b.vm.Get("RegExp").(*goja.Object)
	prototype := constructor.Get("prototype").(*goja.Object)
	exec := b.vm.ToValue(b.count(native(prototype.Get("exec").(*goja.Object))))
	b.countParts(constructor, exec)
	names := native(b.vm.Get("Object").(*goja.Object).Get("getOwnPropertyNames").(*goja.Object))
	// plain reports whether the members of a regular expression are all built in. Otherwise exec may return a result of
	// any length.
	plain := func(v goja.Value) bool {
		o, ok := v.(*goja.Object)
		if !ok || o.ClassName() != "RegExp" || o.ExportType() == reflect.TypeFor[goja.Proxy]() || o.Prototype() != prototype {
			return false
		}
		_, code := o.Get("lastIndex").(*goja.Object)
		return !code && length(names(goja.FunctionCall{Arguments: []goja.Value{o}})) == 1
	}
	for _, symbol := range []*goja.Symbol{goja.SymMatch, goja.SymReplace, goja.SymSplit, goja.SymSearch} {
		original := prototype.GetSymbol(symbol).(*goja.Object)
		raw := native(original)
		f := b.named(b.count(func(c goja.FunctionCall) goja.Value {
			if !plain(c.This) {
				o, ok := c.This.(*goja.Object)
				if !ok || !b.inheritsExec(o, prototype) {
					panic(b.vm.NewTypeError("this function needs a regular expression with the exec of the language"))
				}
				one, err := b.vm.New(constructor, o)
				if err != nil {
					panic(err)
				}
				b.keep(one.Set("lastIndex", o.Get("lastIndex").ToInteger()))
				c.This = one
			}
			s := b.textOf(c.Argument(0))
			c.Arguments = append([]goja.Value{s}, c.Arguments[min(1, len(c.Arguments)):]...)
			if symbol == goja.SymReplace {
				with := goja.FunctionCall{This: s, Arguments: []goja.Value{c.This, c.Argument(1)}}
				b.replaced(&with, true)
				c.Arguments = []goja.Value{s, with.Argument(1)}
			}
			o := c.This.(*goja.Object)
			if s.Length() <= longText || symbol != goja.SymMatch && symbol != goja.SymReplace {
				return raw(c)
			}
			one, err := b.vm.New(constructor, o)
			if err != nil {
				panic(err)
			}
			b.keep(one.Set("lastIndex", o.Get("lastIndex")))
			b.keep(one.DefineDataProperty("exec", exec, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
			v := raw(goja.FunctionCall{This: one, Arguments: c.Arguments})
			b.keep(o.Set("lastIndex", one.Get("lastIndex")))
			return v
		}), original)
		b.keep(prototype.DefineDataPropertySymbol(symbol, f, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	}
	freeze := native(b.vm.Get("Object").(*goja.Object).Get("freeze").(*goja.Object))
	for _, o := range []*goja.Object{prototype, constructor} {
		freeze(goja.FunctionCall{Arguments: []goja.Value{o}})
	}
}

// inheritsExec reports whether o is a regular expression of a class that extends RegExp without defining exec.
func (b *bounds) inheritsExec(o, prototype *goja.Object) bool {
	if o.ClassName() != "RegExp" {
		return false
	}
	for range maxNesting {
		if o == nil || o == prototype {
			return o != nil
		}
		exec := b.describe(goja.FunctionCall{Arguments: []goja.Value{o, b.vm.ToValue("exec")}})
		if o.ExportType() == reflect.TypeFor[goja.Proxy]() || !isNothing(exec) {
			return false
		}
		o = o.Prototype()
	}
	return false
}

// countParts makes a regular expression count its matches before it splits a long text.
func (b *bounds) countParts(constructor *goja.Object, exec goja.Value) {
	prototype := constructor.Get("prototype").(*goja.Object)
	original := prototype.GetSymbol(goja.SymSplit).(*goja.Object)
	raw, match := native(original), native(exec.(*goja.Object))
	f := b.named(b.count(func(c goja.FunctionCall) goja.Value {
		o, ok := c.This.(*goja.Object)
		s, text := c.Argument(0).(goja.String)
		if !ok || !text || s.Length() <= longText || o.ClassName() != "RegExp" {
			return raw(c)
		}
		all, err := b.vm.New(constructor, o, b.vm.ToValue(strings.ReplaceAll(o.Get("flags").String(), "y", "")+"g"))
		if err != nil {
			panic(err)
		}
		for n := 0; ; n++ {
			found, ok := match(goja.FunctionCall{This: all, Arguments: []goja.Value{s}}).(*goja.Object)
			if !ok {
				return raw(c)
			}
			if n > maxElements/4 {
				b.throw("a text has too many parts")
			}
			if empty, ok := found.Get("0").(goja.String); ok && empty.Length() == 0 {
				b.keep(all.Set("lastIndex", all.Get("lastIndex").ToInteger()+1))
			}
		}
	}), original)
	b.keep(prototype.DefineDataPropertySymbol(goja.SymSplit, f, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// splits bounds the parts that String.prototype.split makes.
func (b *bounds) splits(text *goja.Object) {
	original := text.Get("split").(*goja.Object)
	raw := native(original)
	b.define(text, "split", b.named(b.count(func(c goja.FunctionCall) goja.Value {
		if s, ok := c.This.(goja.String); !ok || s.Length() < maxElements {
			return raw(c)
		}
		limit := int64(maxElements)
		if v := c.Argument(1); !goja.IsUndefined(v) {
			limit = min(limit, int64(uint32(v.ToInteger())))
		}
		v := raw(goja.FunctionCall{This: c.This, Arguments: []goja.Value{c.Argument(0), b.vm.ToValue(limit)}})
		if n := length(v); n == maxElements {
			b.throw("a text has too many parts")
		}
		return v
	}), original))
}

// digits bounds the texts that are converted to BigInts, which takes time quadratic in their length.
func (b *bounds) digits() {
	original := b.vm.Get("BigInt").(*goja.Object)
	raw := native(original)
	bounded := b.named(b.count(func(c goja.FunctionCall) goja.Value {
		if s, ok := c.Argument(0).(goja.String); ok && len(strings.TrimSpace(s.String())) > maxBits {
			b.throw("a text is too long for a BigInt")
		}
		return raw(c)
	}), original)
	b.digitsKept(original)
	prototype := original.Get("prototype").(*goja.Object)
	b.inherit(bounded, original)
	b.keep(bounded.DefineDataProperty("prototype", prototype, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	b.define(prototype, "constructor", bounded)
	b.define(b.vm.GlobalObject(), "BigInt", bounded)
}

// digitsKept bounds the bits that BigInt.asIntN and BigInt.asUintN keep of a number: for a negative number they make
// that many bits.
func (b *bounds) digitsKept(constructor *goja.Object) {
	for _, name := range []string{"asIntN", "asUintN"} {
		original := constructor.Get(name).(*goja.Object)
		raw := native(original)
		b.define(constructor, name, b.named(b.count(func(c goja.FunctionCall) goja.Value {
			bits := c.Argument(0).ToInteger() // read once: it may be code of the script
			if bits > maxShift {
				b.throw("a BigInt is too large for this function")
			}
			return raw(goja.FunctionCall{This: c.This, Arguments: []goja.Value{b.vm.ToValue(bits), c.Argument(1)}})
		}), original))
	}
}
