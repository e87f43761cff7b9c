package javascript

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// matchLimit bounds the time of a match, which cannot be interrupted. The engine takes a match for "no match" after
// twice that time. Scripts never see this result, because a match that takes longer than matchLimit throws an error.
const matchLimit = time.Second

var limitMatches = sync.OnceFunc(func() { regexp2.DefaultMatchTimeout = 2 * matchLimit })

// matcher bounds the functions of regular expressions.
type matcher struct {
	*natives
	constructor, prototype *goja.Object
}

// addMatches adds the checks of functions that match. It freezes RegExp, so that the engine calls no exec of the script
// in their loops.
func (n *natives) addMatches(add func(owner string, f check, names ...string)) {
	constructor := n.vm.Get("RegExp").(*goja.Object)
	m := &matcher{natives: n, constructor: constructor, prototype: constructor.Get("prototype").(*goja.Object)}
	raw := func(name string) native { return nativeOf(m.prototype, name) }
	symbol := func(s *goja.Symbol) native { return m.prototype.GetSymbol(s).Export().(native) }
	add("RegExp", m.pattern, "", ".prototype.compile")
	add("RegExp.prototype.", m.timed(raw("exec")), "exec")
	add("RegExp.prototype.", m.timed(raw("test")), "test")
	add("RegExp.prototype.Symbol(Symbol.", m.timed(symbol(goja.SymSearch)), "search)")
	add("RegExp.prototype.Symbol(Symbol.", m.match(m.timed(symbol(goja.SymMatch))), "match)")
	add("RegExp.prototype.Symbol(Symbol.", m.replace(m.timed(symbol(goja.SymReplace))), "replace)")
	add("RegExp.prototype.Symbol(Symbol.", m.split(m.timed(symbol(goja.SymSplit))), "split)")
	add("String.prototype.", func(c *goja.FunctionCall) goja.Value {
		if o, ok := c.Argument(0).(*goja.Object); ok && !isNullish(o.GetSymbol(goja.SymMatch)) {
			return nil
		}
		return m.pattern(c)
	}, "match", "matchAll", "search")
	freeze := nativeOf(n.vm.Get("Object").(*goja.Object), "freeze")
	freeze(goja.FunctionCall{Arguments: []goja.Value{m.prototype}})
	freeze(goja.FunctionCall{Arguments: []goja.Value{m.constructor}})
}

// pattern bounds the regular expression that is made of the first argument.
func (m *matcher) pattern(c *goja.FunctionCall) goja.Value {
	if o, ok := c.Argument(0).(*goja.Object); ok && (o.ClassName() != "RegExp" || isProxy(o)) {
		setArgument(c, 0, m.stringOf(o))
	}
	if s, ok := c.Argument(0).(goja.String); ok && s.Length() > maxPattern {
		m.throw("a regular expression is too long")
	}
	return nil
}

// timed calls raw, and throws when that takes too long.
func (m *matcher) timed(raw native) check {
	return func(c *goja.FunctionCall) goja.Value {
		start := time.Now()
		v := raw(*c)
		if time.Since(start) > matchLimit {
			m.throwInterrupted()
			m.throw("a regular expression took longer than " + matchLimit.String())
		}
		return v
	}
}

func (m *matcher) match(raw check) check {
	return func(c *goja.FunctionCall) goja.Value {
		if o, ok := c.This.(*goja.Object); ok && m.isPlain(o) {
			setArgument(c, 0, m.stringOf(c.Argument(0)))
			m.stepwise(c, o)
		}
		return raw(c)
	}
}

func (m *matcher) replace(raw check) check {
	return func(c *goja.FunctionCall) goja.Value {
		o := m.plain(c.This)
		with := goja.FunctionCall{This: m.stringOf(c.Argument(0)), Arguments: []goja.Value{o, c.Argument(1)}}
		m.replaceText(&with, true)
		c.This, c.Arguments = o, []goja.Value{with.This, with.Argument(1)}
		m.stepwise(c, o)
		return raw(c)
	}
}

func (m *matcher) split(raw check) check {
	return func(c *goja.FunctionCall) goja.Value {
		o, s := m.plain(c.This), m.stringOf(c.Argument(0))
		c.This = o
		setArgument(c, 0, s)
		source := o.Get("source")
		if s.Length() == 0 || s.Length() <= longText && !mayBacktrack(source.String()) {
			return raw(c)
		}
		limit := int64(math.MaxUint32)
		if v := c.Argument(1); !goja.IsUndefined(v) {
			limit = int64(uint32(v.ToInteger()))
		}
		flags := strings.NewReplacer("g", "", "y", "").Replace(o.Get("flags").String())
		v, err := m.splitLong(goja.Undefined(), s, m.newRegExp(source, flags+"g"), m.vm.ToValue(limit))
		if err != nil {
			panic(err)
		}
		return v
	}
}

// stepwise replaces the regular expression o by one that finds all matches one by one, if there may be many, or if each
// may take long, so that the script can be interrupted between them. Otherwise the engine collects them at once.
func (m *matcher) stepwise(c *goja.FunctionCall, o *goja.Object) {
	s, ok := c.Argument(0).(goja.String)
	if !ok || !o.Get("global").ToBoolean() {
		return
	}
	source := o.Get("source")
	if s.Length() <= longText && !mayBacktrack(source.String()) {
		return
	}
	one := m.newRegExp(source, o.Get("flags").String())
	m.keep(one.DefineDataProperty("exec", m.prototype.Get("exec"), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	m.keep(o.Set("lastIndex", 0))
	c.This = one
}

func (m *matcher) newRegExp(source goja.Value, flags string) *goja.Object {
	o, err := m.vm.New(m.constructor, source, m.vm.ToValue(flags))
	if err != nil {
		panic(err)
	}
	return o
}

// isPlain reports whether the members of a regular expression are all built in. Otherwise exec may return a result of
// any length.
func (m *matcher) isPlain(o *goja.Object) bool {
	if o.ClassName() != "RegExp" || isProxy(o) || o.Prototype() != m.prototype || len(o.GetOwnPropertyNames()) != 1 {
		return false
	}
	_, code := o.Get("lastIndex").(*goja.Object)
	return !code
}

// plain returns v, or a copy of it without the members that the script gave it.
func (m *matcher) plain(v goja.Value) *goja.Object {
	o, ok := v.(*goja.Object)
	if ok && m.isPlain(o) {
		return o
	}
	if !ok || o.ClassName() != "RegExp" || o.Get("exec") != m.prototype.Get("exec") {
		panic(m.vm.NewTypeError("this function needs a regular expression with the exec of the language"))
	}
	one := m.newRegExp(m.stringOf(o.Get("source")), m.stringOf(o.Get("flags")).String())
	m.keep(one.Set("lastIndex", o.Get("lastIndex").ToInteger()))
	return one
}

// mayBacktrack reports whether a match may take exponential time: the pattern has a group that is repeated, or that
// looks ahead or behind, or a reference to a group.
func mayBacktrack(pattern string) bool {
	for i := 0; i+1 < len(pattern); i++ {
		switch next := pattern[i+1]; pattern[i] {
		case '\\':
			if next >= '1' && next <= '9' || next == 'k' {
				return true
			}
			i++
		case ')':
			if strings.IndexByte("*+{", next) >= 0 {
				return true
			}
		case '(':
			if next == '?' && i+2 < len(pattern) && pattern[i+2] != ':' {
				return true
			}
		}
	}
	return false
}
