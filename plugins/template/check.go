package template

import (
	"errors"
	"fmt"
	"reflect"
	"text/template/parse"

	"github.com/conduit-agent/conduit/spec/texts"
)

// builtins are the functions of text/template that allFunctions does not replace, with their least and most arguments;
// -1: any number.
var builtins = map[string][2]int{
	"and": {1, -1}, "or": {1, -1}, "not": {1, 1}, "len": {1, 1}, "index": {1, -1}, "call": {1, -1},
}

// checker finds what fails for every record: functions that do not exist or have another number of arguments, and
// fields that no record has. It also looks into branches that are rarely taken. The type of a value is nil where it is
// known only when a record arrives.
type checker struct {
	trees     map[string]*parse.Tree
	tree      *parse.Tree // that is being checked
	strict    bool
	path      bool
	variables []variable
	assigned  map[string]bool // names of variables that an action sets again
	checked   map[called]bool
	err       error // the first
}

type variable struct {
	name string
	typ  reflect.Type
}

// called is a defined template that is executed with a value of a type.
type called struct {
	name string
	dot  reflect.Type
}

// check returns the first error in trees that does not depend on the record.
func check(trees map[string]*parse.Tree, strict, path bool) error {
	c := checker{trees: trees, strict: strict, path: path, assigned: map[string]bool{}, checked: map[called]bool{}}
	for _, t := range trees {
		eachNode(t.Root, func(n parse.Node) {
			if p, ok := n.(*parse.PipeNode); ok && p.IsAssign {
				for _, v := range p.Decl {
					c.assigned[v.Ident[0]] = true
				}
			}
		})
	}
	c.template("", reflect.TypeFor[view]())
	for _, name := range keys(trees) {
		c.template(name, nil)
	}
	return c.err
}

// template checks the template name, executed with a value of the type dot.
func (c *checker) template(name string, dot reflect.Type) {
	tree := c.trees[name]
	if call := (called{name, dot}); tree != nil && !c.checked[call] {
		c.checked[call] = true
		outer, variables := c.tree, c.variables
		c.tree, c.variables = tree, []variable{{"$", dot}}
		c.list(tree.Root, dot)
		c.tree, c.variables = outer, variables
	}
}

func (c *checker) fail(n parse.Node, err error) {
	if c.err == nil {
		c.err = faultAt(c.tree, n, err)
	}
}

func (c *checker) list(l *parse.ListNode, dot reflect.Type) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			c.pipe(n.Pipe, dot)
		case *parse.IfNode:
			c.branch(&n.BranchNode, dot, func(reflect.Type) reflect.Type { return dot })
		case *parse.WithNode:
			c.branch(&n.BranchNode, dot, func(t reflect.Type) reflect.Type { return t })
		case *parse.RangeNode:
			c.branch(&n.BranchNode, dot, func(reflect.Type) reflect.Type { return nil })
		case *parse.TemplateNode:
			var inner reflect.Type
			if n.Pipe != nil {
				inner = c.pipe(n.Pipe, dot)
			}
			if c.trees[n.Name] == nil {
				c.fail(n, fmt.Errorf("there is no template %q%s", n.Name, texts.Hint(n.Name, keys(c.trees))))
			}
			c.template(n.Name, inner)
		}
	}
}

// branch checks if, with and range. inner returns the type of the dot in the first list.
func (c *checker) branch(b *parse.BranchNode, dot reflect.Type, inner func(reflect.Type) reflect.Type) {
	before := len(c.variables)
	t := c.pipe(b.Pipe, dot)
	if b.NodeType == parse.NodeRange {
		for i := before; i < len(c.variables); i++ {
			c.variables[i].typ = nil // keys and elements
		}
	}
	declared := len(c.variables)
	c.list(b.List, inner(t))
	c.variables = c.variables[:declared]
	c.list(b.ElseList, dot)
	c.variables = c.variables[:before]
}

func (c *checker) pipe(p *parse.PipeNode, dot reflect.Type) (t reflect.Type) {
	for i, command := range p.Cmds {
		t = c.command(command, dot, i > 0)
	}
	for _, v := range p.Decl {
		if !p.IsAssign {
			declared := t
			if c.assigned[v.Ident[0]] {
				declared = nil
			}
			c.variables = append(c.variables, variable{v.Ident[0], declared})
		}
	}
	return t
}

// command checks a call or a single operand. piped reports whether it has the value of a pipe as another argument.
func (c *checker) command(n *parse.CommandNode, dot reflect.Type, piped bool) reflect.Type {
	for _, a := range n.Args[1:] {
		c.operand(a, dot, 0)
	}
	arguments := len(n.Args) - 1
	if piped {
		arguments++
	}
	switch first := n.Args[0].(type) {
	case *parse.NilNode:
		c.fail(n, errors.New("nil is no value to print: remove it"))
	case *parse.IdentifierNode:
		c.literals(n, first.Ident)
	}
	return c.operand(n.Args[0], dot, arguments)
}

// literals checks the types of the literal arguments in the call n of a function.
func (c *checker) literals(n *parse.CommandNode, function string) {
	f := allFunctions()[function]
	if f == nil {
		return
	}
	t := reflect.TypeOf(f)
	for i, a := range n.Args[1:] {
		var want reflect.Type
		switch {
		case t.IsVariadic() && i >= t.NumIn()-1:
			want = t.In(t.NumIn() - 1).Elem()
		case i < t.NumIn():
			want = t.In(i)
		default:
			return // too many, which call reports
		}
		if name := mismatch(a, want.Kind()); name != "" {
			c.fail(n, fmt.Errorf("argument %d of %s must be %s, not %s", i+1, function, name, a))
		}
	}
}

// mismatch returns what users call a value of the kind if n is a literal of another kind.
func mismatch(n parse.Node, kind reflect.Kind) string {
	_, isText := n.(*parse.StringNode)
	_, isBool := n.(*parse.BoolNode)
	number, isNumber := n.(*parse.NumberNode)
	switch {
	case !isText && !isBool && !isNumber:
	case kind == reflect.String && !isText:
		return "text in quotes"
	case kind == reflect.Bool && !isBool:
		return "true or false"
	case kind >= reflect.Int && kind <= reflect.Int64 && !(isNumber && number.IsInt):
		return "a whole number"
	case kind >= reflect.Uint && kind <= reflect.Uint64 && !(isNumber && number.IsUint):
		return "a whole number that is not negative"
	case (kind == reflect.Float32 || kind == reflect.Float64) && !(isNumber && number.IsFloat):
		return "a number"
	}
	return ""
}

// operand returns the type of the value of n, or of the result when n is called with arguments.
func (c *checker) operand(n parse.Node, dot reflect.Type, arguments int) reflect.Type {
	switch n := n.(type) {
	case *parse.IdentifierNode:
		return c.call(n, arguments)
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return c.fields(n, dot, n.Ident, arguments)
	case *parse.ChainNode:
		return c.fields(n, c.operand(n.Node, dot, 0), n.Field, arguments)
	case *parse.VariableNode:
		for i := len(c.variables) - 1; i >= 0; i-- {
			if v := c.variables[i]; v.name == n.Ident[0] {
				return c.fields(n, v.typ, n.Ident[1:], arguments)
			}
		}
	case *parse.PipeNode:
		return c.pipe(n, dot)
	}
	return nil
}

// call checks a call of a function.
func (c *checker) call(n *parse.IdentifierNode, arguments int) reflect.Type {
	f := allFunctions()[n.Ident]
	if f == nil && c.path && n.Ident == strftimeName {
		f = (*machine)(nil).strftime
	}
	limits, known := builtins[n.Ident]
	least, most := limits[0], limits[1]
	var result reflect.Type
	if f != nil {
		t := reflect.TypeOf(f)
		if least, most = t.NumIn(), t.NumIn(); t.IsVariadic() {
			least, most = least-1, -1
		}
		result, known = t.Out(0), true
	}
	switch {
	case !known:
		c.fail(n, unknownFunction(n.Ident, c.path))
	case arguments < least || most >= 0 && arguments > most:
		want := fmt.Sprint(least)
		if most < 0 {
			want = "at least " + want
		}
		c.fail(n, fmt.Errorf("%s has %d arguments, but takes %s", n.Ident, arguments, want))
	}
	return result
}

// fields returns the type of the value that names lead to from a value of the type t.
func (c *checker) fields(n parse.Node, t reflect.Type, names []string, arguments int) reflect.Type {
	method := false
	for _, name := range names {
		if t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
			return nil
		}
		m, isMethod := t.MethodByName(name)
		field, isField := reflect.StructField{}, false
		if t.Kind() == reflect.Struct {
			field, isField = t.FieldByName(name)
		}
		switch method = isMethod; {
		case isMethod:
			t = m.Type.Out(0)
		case isField && field.IsExported():
			t = field.Type
		case t.Kind() == reflect.Map:
			if t = t.Elem(); !c.strict {
				t = nil // a missing key is no error, and neither are its fields
			}
		default:
			c.fail(n, noField(t, name))
			return nil
		}
	}
	if t != nil && arguments > 0 && !method {
		c.fail(n, errors.New("a value takes no arguments: write the name of the function first, such as "+
			"{{ toJson .Key }}"))
	}
	return t
}
