package javascript

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"
)

// Limits of single operations, which cannot be interrupted.
const (
	maxMade     = 64 << 20 // bytes of a text
	maxElements = 4 << 20  // elements of nested lists, in total
	maxNesting  = 1000     // nesting depth of lists
	maxBits     = 100_000  // bits of the base of a power of BigInts
	maxExponent = 1000     // exponent of a power of BigInts
	maxShift    = 1_000_000
	maxUnicode  = 256 << 10 // UTF-16 code units of a text that is normalized or collated
)

// boundNatives bounds further built-in functions, in addition to boundLengths. The work of these functions depends on
// more than one length: they walk nested lists, or make as much text as the product of two arguments.
func (b *bounds) boundNatives() {
	vm := b.vm
	prototype := func(name string) *goja.Object { return vm.Get(name).(*goja.Object).Get("prototype").(*goja.Object) }
	array, text := prototype("Array"), prototype("String")
	b.methods(array, b.this, "keys", "entries", "values")
	b.keep(array.DefineDataPropertySymbol(goja.SymIterator, array.Get("values"), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	b.joins(array)
	b.flattens(array)
	b.stringifies(vm.Get("JSON").(*goja.Object))
	b.parses(vm.Get("JSON").(*goja.Object))
	b.texts(text, func(c *goja.FunctionCall) { b.replaced(c, false) }, "replace")
	b.texts(text, func(c *goja.FunctionCall) { b.replaced(c, true) }, "replaceAll")
	b.flatMaps(array)
	b.splits(text)
	b.sorts(array)
	b.patterns(text)
	b.matches()
	b.digits()
	b.texts(text, b.concatenated, "concat")
	b.texts(text, b.collated, "normalize", "localeCompare")
	b.concatenates(array)
	b.rawTexts(vm.Get("String").(*goja.Object))
	b.noCode(vm)
}

// noCode removes the functions that compile text to code, because checkTree would not see that code.
func (b *bounds) noCode(vm *goja.Runtime) {
	refuse := func(goja.FunctionCall) goja.Value {
		panic(vm.NewTypeError("scripts cannot make code of text"))
	}
	for _, example := range []string{"(function () {})", "(function* () {})", "(async function () {})"} {
		v, err := vm.RunString(example)
		if err != nil {
			b.keep(err)
			return
		}
		constructor := vm.ToValue(refuse).(*goja.Object)
		prototype := v.(*goja.Object).Prototype()
		b.keep(constructor.DefineDataProperty("prototype", prototype, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
		b.keep(prototype.DefineDataProperty("constructor", constructor, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
		if strings.HasPrefix(example, "(function (") {
			b.define(vm.GlobalObject(), "Function", constructor)
		}
	}
	b.define(vm.GlobalObject(), "eval", vm.ToValue(refuse))
}

// collated bounds the texts that are normalized or compared by the rules of a language, which takes microseconds for
// each code unit of a text that is not ASCII.
func (b *bounds) collated(c *goja.FunctionCall) {
	if o, ok := c.Argument(0).(*goja.Object); ok {
		c.Arguments[0] = b.textOf(o)
	}
	for _, v := range []goja.Value{c.This, c.Argument(0)} {
		if s, ok := v.(goja.String); ok && s.Length() > maxUnicode && unitBytes(s) > 1 {
			b.throw("a text is too long to be normalized or compared")
		}
	}
}

// measure throws if a value is too large, or nested too deep, to be converted to text.
type measure struct {
	*bounds
	elements, text int // remaining budget
}

func (m *measure) add(v goja.Value, depth int) {
	m.elements--
	if s, ok := v.(goja.String); ok {
		m.text -= s.Length()
	}
	if m.elements < 0 || m.text < 0 || depth > maxNesting {
		m.throw("a list, an object or a text is too long or nested too deep")
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return
	}
	switch o.ClassName() {
	case "Array":
		n := o.Get("length").ToInteger()
		m.throwAbove(n)
		for i := range n {
			m.add(o.Get(strconv.FormatInt(i, 10)), depth+1)
		}
	case "Object":
		for _, key := range o.Keys() {
			m.text -= len(key)
			m.add(o.Get(key), depth+1)
		}
	}
}

// replaced bounds the text that a replacement makes. Without all, a text matches at most once; a regular expression
// matches at most once for each character.
func (b *bounds) replaced(c *goja.FunctionCall, all bool) {
	if len(c.Arguments) == 0 {
		return
	}
	if o, ok := c.Arguments[0].(*goja.Object); ok && isNothing(o.GetSymbol(goja.SymReplace)) {
		c.Arguments[0] = b.textOf(o)
	}
	if _, ok := goja.AssertFunction(c.Argument(1)); ok {
		return // a replacement function can be interrupted
	}
	with := b.textOf(c.Argument(1))
	c.Arguments = []goja.Value{c.Arguments[0], with}
	text, replacement := c.This.String(), with.String()
	n, matches := int64(len(text)), int64(len(text))+1
	if pattern, ok := c.Argument(0).(goja.String); ok && !all {
		matches = 1
	} else if ok {
		matches = int64(strings.Count(text, pattern.String()))
	}
	made := matches*int64(with.Length()) + n*int64(strings.Count(replacement, "$")) // groups are parts of the text
	if strings.Contains(replacement, "$`") || strings.Contains(replacement, "$'") {
		made += matches * n
	}
	if made > 2*maxMade {
		b.throw("a replacement is too long")
	}
}

func (b *bounds) concatenated(c *goja.FunctionCall) {
	left := maxMade
	for i, v := range c.Arguments {
		s := b.textOf(v)
		if left -= s.Length(); left < 0 {
			b.throw("a text is too long")
		}
		c.Arguments[i] = s
	}
}

func (b *bounds) throw(message string) {
	rangeError, err := b.vm.New(b.vm.Get("RangeError"), b.vm.ToValue(message))
	if err != nil {
		panic(err)
	}
	panic(rangeError)
}

// checkName is the name of the function that checks the operands of ** and <<. Scripts cannot know the name beforehand,
// and cannot compile code afterwards.
var checkName = "operand" + rand.Text()

// boundPowers defines the function checkName. With BigInts, these operators alone can make numbers of any size.
func (b *bounds) boundPowers() {
	made, err := b.vm.RunProgram(numberFunction)
	if err != nil {
		b.keep(err)
		return
	}
	number, _ := goja.AssertFunction(made)
	b.keep(b.vm.GlobalObject().DefineDataProperty(checkName, b.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		v := c.Argument(0)
		if _, ok := v.(*goja.Object); ok { // exporting an object, such as a Map, would export all its content
			made, err := number(goja.Undefined(), v)
			if err != nil {
				panic(err)
			}
			v = made
		}
		n, ok := v.Export().(*big.Int)
		if !ok {
			return v
		}
		limit := c.Argument(1).ToInteger()
		if bits := c.Argument(2).ToBoolean(); bits && int64(n.BitLen()) > limit || !bits && n.CmpAbs(big.NewInt(limit)) > 0 {
			b.throw("a BigInt is too large for this operator")
		}
		return v
	}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
}

// numberFunction converts an operand to a number or BigInt.
var numberFunction = goja.MustCompile(emptyName, "(v => -(-v))", true)

// sumName and textName are names like checkName: sumName checks the results of +, textName the parts of a template.
var sumName, textName = "sum" + rand.Text(), "text" + rand.Text()

// boundSums defines the functions sumName and textName. A loop that doubles a text takes gigabytes between two checks
// of the memory.
func (b *bounds) boundSums() {
	define := func(name string, f func(goja.FunctionCall) goja.Value) {
		b.keep(b.vm.GlobalObject().DefineDataProperty(name, b.vm.ToValue(f), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	}
	define(sumName, func(c goja.FunctionCall) goja.Value {
		v := c.Argument(0)
		if s, ok := v.(goja.String); ok {
			b.text(s.Length(), s)
		}
		return v
	})
	define(textName, func(c goja.FunctionCall) goja.Value {
		n, wide := 0, goja.String(nil)
		for _, v := range c.Arguments {
			s := b.textOf(v)
			if n += s.Length(); wide == nil || unitBytes(s) > unitBytes(wide) {
				wide = s
			}
		}
		b.text(n, wide)
		var out goja.StringBuilder
		for _, v := range c.Arguments {
			out.WriteString(b.textOf(v))
		}
		return out.String()
	})
}

// text throws if a text of n code units like those of s exceeds the memory limit of the script. It counts half as much
// again for the parts of the text, which are in memory at the same time.
func (b *bounds) text(n int, s goja.String) {
	if n < largeList/2 {
		return
	}
	size := uint64(n * unitBytes(s))
	if size+size/2 > b.guard.memory {
		b.throw(fmt.Sprintf("a text of %d bytes is too long", size))
	}
	b.guard.make(size)
}

// unitBytes returns the number of bytes of each code unit of s: the engine stores texts with non-ASCII characters as
// 16-bit units.
func unitBytes(s goja.String) int {
	if reflect.TypeOf(s).Kind() == reflect.String {
		return 1
	}
	return 2
}

// checkTree adds checks to the tree: of the operands of ** and <<, and of the results of + and templates. It refuses
// with statements, because a script could use them to replace the checking functions by its own.
func checkTree(tree *ast.Program) error {
	var c treeCheck
	c.node(reflect.ValueOf(tree.Body))
	if c.with != nil {
		return &goja.CompilerSyntaxError{CompilerError: goja.CompilerError{File: tree.File, Offset: int(c.with.With) - 1,
			Message: "scripts cannot use with: name the object before each of its members"}}
	}
	return nil
}

type treeCheck struct{ with *ast.WithStatement }

// node walks all nodes at v. The nodes of the syntax tree are pointers and lists of pointers.
func (c *treeCheck) node(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Pointer && v.Type().Elem().PkgPath() != reflect.TypeFor[ast.Program]().PkgPath() {
			return
		}
		c.node(v.Elem())
		if v.Kind() == reflect.Interface {
			if e, ok := v.Interface().(ast.Expression); ok && v.CanSet() {
				if bounded := boundedSum(e); bounded != nil {
					v.Set(reflect.ValueOf(bounded))
				}
			}
			return
		}
		switch node := v.Interface().(type) {
		case *ast.WithStatement:
			c.with = node
		case *ast.BinaryExpression:
			node.Left, node.Right = checkOperands(node.Operator, node.Left, node.Right)
		case *ast.AssignExpression:
			if name, ok := node.Left.(*ast.Identifier); ok && node.Operator == token.EXPONENT {
				left, right := checkOperands(node.Operator, name, node.Right)
				node.Operator, node.Right = token.ASSIGN, &ast.BinaryExpression{Operator: token.EXPONENT, Left: left, Right: right}
				return
			}
			_, node.Right = checkOperands(node.Operator, nil, node.Right)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.node(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.node(v.Field(i))
			}
		}
	}
}

// boundedSum returns e wrapped in a call of sumName or textName, or nil if the result cannot be much longer than one of
// its parts.
func boundedSum(e ast.Expression) ast.Expression {
	switch e := e.(type) {
	case *ast.BinaryExpression:
		if e.Operator == token.PLUS && !short(e.Left) && !short(e.Right) {
			return callOf(sumName, e, e)
		}
	case *ast.AssignExpression:
		if e.Operator == token.PLUS && !short(e.Right) {
			return callOf(sumName, e, e)
		}
	case *ast.TemplateLiteral:
		switch n := lengths(e); {
		case n > 3:
			return callOf(textName, e, templateParts(e)...)
		case n > 1:
			return callOf(sumName, e, e)
		}
	}
	return nil
}

// lengths returns the number of values in a template that may be long, or 0 if a tag function makes the result.
func lengths(e *ast.TemplateLiteral) (n int) {
	if e.Tag != nil {
		return 0
	}
	for _, value := range e.Expressions {
		if !short(value) {
			n++
		}
	}
	return n
}

// templateParts returns the parts of a template as texts. Each value is converted to text before the next is evaluated.
func templateParts(e *ast.TemplateLiteral) (parts []ast.Expression) {
	for i, element := range e.Elements {
		if element.Parsed != "" {
			parts = append(parts, &ast.StringLiteral{Idx: element.Idx, Literal: element.Literal, Value: element.Parsed})
		}
		if i < len(e.Expressions) {
			none := &ast.TemplateElement{Idx: element.Idx, Valid: true}
			parts = append(parts, &ast.TemplateLiteral{OpenQuote: e.OpenQuote, CloseQuote: e.CloseQuote,
				Elements: []*ast.TemplateElement{none, none}, Expressions: []ast.Expression{e.Expressions[i]}})
		}
	}
	return parts
}

// short reports whether e is a literal, or evaluates to a number or boolean.
func short(e ast.Expression) bool {
	switch e := e.(type) {
	case *ast.NumberLiteral, *ast.StringLiteral, *ast.BooleanLiteral, *ast.NullLiteral, *ast.UnaryExpression:
		return true
	case *ast.TemplateLiteral:
		return e.Tag == nil && len(e.Expressions) == 0
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.PLUS, token.LOGICAL_AND, token.LOGICAL_OR, token.COALESCE:
			return false
		}
		return true
	}
	return false
}

// callOf returns a call of the function name that replaces e.
func callOf(name string, e ast.Expression, arguments ...ast.Expression) ast.Expression {
	return &ast.CallExpression{Callee: &ast.Identifier{Name: unistring.NewFromString(name), Idx: e.Idx0()},
		LeftParenthesis: e.Idx0(), RightParenthesis: e.Idx1(), ArgumentList: arguments}
}

func checkOperands(operator token.Token, left, right ast.Expression) (l, r ast.Expression) {
	switch operator {
	case token.EXPONENT:
		if left == nil {
			return nil, checked(right, 10, false)
		}
		return checked(left, maxBits, true), checked(right, maxExponent, false)
	case token.SHIFT_LEFT, token.SHIFT_RIGHT: // a shift by a negative number shifts in the other direction
		return left, checked(right, maxShift, false)
	}
	return left, right
}

// checked returns a call of the function checkName with e.
func checked(e ast.Expression, limit int64, bits bool) ast.Expression {
	return callOf(checkName, e, e,
		&ast.NumberLiteral{Idx: e.Idx0(), Literal: fmt.Sprint(limit), Value: limit},
		&ast.BooleanLiteral{Idx: e.Idx0(), Literal: fmt.Sprint(bits), Value: bits})
}
