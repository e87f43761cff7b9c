package javascript

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// maxNesting bounds the nesting of JSON.
const maxNesting = 1000

// stringify returns JSON.stringify with a replacer, which the engine calls for each value that it visits. It writes
// exact numbers, and ends when the script is interrupted.
func (n *natives) stringify() check {
	json := n.vm.Get("JSON").(*goja.Object)
	raw, rawJSON := nativeOf(json, "stringify"), nativeOf(json, "rawJSON")
	return func(c *goja.FunctionCall) goja.Value {
		s := stringifier{natives: n, rawJSON: rawJSON}
		if o, ok := c.Argument(1).(*goja.Object); ok {
			if s.replacer, ok = goja.AssertFunction(o); !ok && o.ClassName() == "Array" {
				s.names = n.propertyNames(o)
			}
		}
		return raw(goja.FunctionCall{This: c.This,
			Arguments: []goja.Value{c.Argument(0), n.vm.ToValue(s.replace), c.Argument(2)}})
	}
}

// propertyNames returns the names in the second argument of JSON.stringify.
func (n *natives) propertyNames(list *goja.Object) []string {
	names := []string{}
	for i := range n.limitLength(lengthOf(list)) {
		n.throwInterrupted()
		v := list.Get(strconv.FormatInt(i, 10))
		if o, ok := v.(*goja.Object); isNullish(v) || ok && o.ClassName() != "String" && o.ClassName() != "Number" {
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
	*natives
	rawJSON  native
	replacer goja.Callable // replacer of the script
	names    []string      // nil: all
	open     []openObject  // the objects being visited
}

type openObject struct{ holder, original *goja.Object }

func (s *stringifier) replace(c goja.FunctionCall) goja.Value {
	s.throwInterrupted()
	holder, _ := c.This.(*goja.Object)
	for len(s.open) > 0 && s.open[len(s.open)-1].holder != holder {
		s.open = s.open[:len(s.open)-1]
	}
	v := c.Argument(1)
	if s.replacer != nil {
		replaced, err := s.replacer(c.This, c.Argument(0), v)
		if err != nil {
			panic(err)
		}
		v = replaced
	}
	if text, ok := s.exactText(v); ok {
		return s.rawJSON(goja.FunctionCall{Arguments: []goja.Value{s.vm.ToValue(text)}})
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
	if s.names != nil && o.ClassName() != "Array" && o.ExportType() != functionType {
		shown = s.selected(o)
	}
	s.open = append(s.open, openObject{holder: shown, original: o})
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

// parse returns JSON.parse for exact numbers, within bounds of depth and memory.
func (n *natives) parse() check {
	raw := nativeOf(n.vm.Get("JSON").(*goja.Object), "parse")
	unmark := n.vm.ToValue(func(c goja.FunctionCall) goja.Value { return n.unmarkNumber(c.Argument(1)) })
	return func(c *goja.FunctionCall) goja.Value {
		text := n.stringOf(c.Argument(0))
		n.measureJSON(text.String())
		arguments := []goja.Value{text}
		if marked, changed := n.markNumbers(text.String()); changed {
			arguments = []goja.Value{n.vm.ToValue(marked), unmark}
		}
		v := raw(goja.FunctionCall{This: c.This, Arguments: arguments})
		if _, ok := goja.AssertFunction(c.Argument(1)); !ok {
			return v
		}
		root := n.vm.NewObject()
		n.keep(root.Set("", v))
		v, err := n.revive(goja.Undefined(), root, n.vm.ToValue(""), c.Argument(1))
		if err != nil {
			panic(err)
		}
		return v
	}
}

// The memory of values that JSON.parse makes, in bytes.
const (
	bytesOfList        = 576
	bytesOfObject      = 440 // without its members
	bytesOfEmptyObject = 192
	bytesOfValue       = 48
)

// measureJSON throws if the values of a JSON text are nested too deep, or take more memory than the script may have.
func (n *natives) measureJSON(text string) {
	depth, size, quoted := 0, int64(0), false
	for i := 0; i < len(text); i++ {
		switch char := text[i]; {
		case char == '\\' && quoted:
			i++
		case char == '"':
			quoted = !quoted
		case quoted:
		case char == '[' || char == '{':
			if depth++; depth > 10*maxNesting {
				n.throw("JSON is nested too deep")
			}
			switch {
			case char == '[':
				size += bytesOfList
			case strings.HasPrefix(text[i+1:], "}"):
				size += bytesOfEmptyObject
			default:
				size += bytesOfObject
			}
		case char == ']' || char == '}':
			depth--
		case char == ',' || char == ':':
			size += bytesOfValue
		}
	}
	n.allocate(size)
}
