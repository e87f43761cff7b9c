package expr

import (
	"fmt"
	"reflect"
	"strings"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// The library counts list elements, but neither bytes of text nor how often one list is part of others. Operations that
// convert values to text or walk whole values are bounded here before they run.
const (
	maxText   = 64 << 20  // bytes of text that the expressions may make for one record
	maxValues = 1_000_000 // values within an argument or result
)

var (
	errText   = fmt.Errorf("it makes texts of more than %d MiB", maxText>>20)
	errValues = fmt.Errorf("it has a value of more than %d values, or nested deeper than %d", maxValues, maxDepth)
)

// growth holds the functions whose result may be much larger than their arguments. Each entry returns an upper bound
// for the bytes of the result.
var growth = map[string]func(e *environment, args []any) (int, error){
	"repeat": func(_ *environment, args []any) (int, error) {
		return product(len(textAt(args, 0)), count(args, 1)), nil
	},
	"replace":    replaceSize,
	"join":       joinSize,
	"split":      splitSize,
	"splitAfter": splitSize,
	"fromJSON":   func(_ *environment, args []any) (int, error) { return jsonSize(textAt(args, 0)), nil },
	"toJSON":     func(_ *environment, args []any) (int, error) { return textSize(args[0], 2) },
	"uniq":       uniqSize,
	"flatten":    func(_ *environment, args []any) (int, error) { return textSize(args[0], 1) },
	"upper":      sameSize,
	"lower":      sameSize,
	"toBase64":   sameSize,
	"fromBase64": sameSize,
}

func sameSize(_ *environment, args []any) (int, error) { return 2 * len(textAt(args, 0)), nil }

func replaceSize(_ *environment, args []any) (int, error) {
	s, old, with := textAt(args, 0), textAt(args, 1), textAt(args, 2)
	return len(s) + product(strings.Count(s, old), len(with)), nil
}

// uniqSize bounds the comparison of each element with every other.
func uniqSize(e *environment, args []any) (int, error) {
	if v := reflect.ValueOf(args[0]); v.Kind() == reflect.Slice {
		if n := v.Len(); n > maxUnique {
			return 0, fmt.Errorf("uniq gets a list of %d elements, at most %d may be", n, maxUnique)
		}
	}
	return textSize(args[0], 0)
}

const maxUnique = 10_000

func joinSize(_ *environment, args []any) (n int, err error) {
	glue := len(textAt(args, 1))
	v := reflect.ValueOf(args[0])
	if v.Kind() != reflect.Slice {
		return 0, nil
	}
	for i := range v.Len() {
		if s, ok := v.Index(i).Interface().(string); ok {
			n += len(s)
		}
		if n += glue; n > maxText {
			break
		}
	}
	return n, nil
}

// partBytes is the memory of a part of a text in a list.
const partBytes = 16

func splitSize(_ *environment, args []any) (int, error) {
	s := textAt(args, 0)
	parts := strings.Count(s, textAt(args, 1)) + 1
	if n := count(args, 2); len(args) > 2 && n >= 0 {
		parts = min(parts, n)
	}
	return product(parts, partBytes), nil
}

// Minimum memory of the values of a JSON text.
const (
	objectBytes = 300
	memberBytes = 48
)

func jsonSize(text string) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			n += objectBytes
		case c == ',' || c == ':':
			n += memberBytes
		}
	}
	return n
}

// textSize returns the length of v as text, with indent bytes for each nesting level of a value.
func textSize(v any, indent int) (int, error) {
	s := sizes{values: maxValues, text: maxText}
	if err := s.add(reflect.ValueOf(v), 0, indent); err != nil {
		return 0, err
	}
	return maxText - s.text, nil
}

// checkSize returns an error if v is too large to walk.
func checkSize(v any) error {
	_, err := textSize(v, 0)
	return err
}

// sizes is the remaining budget of values and text.
type sizes struct{ values, text int }

func (s *sizes) add(v reflect.Value, depth, indent int) error {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	s.values--
	s.text -= 8 + depth*indent
	switch v.Kind() {
	case reflect.String:
		s.text -= v.Len()
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			s.text -= 4 * v.Len()
			break
		}
		for i := range v.Len() {
			if err := s.add(v.Index(i), depth+1, indent); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			s.text -= it.Key().Len()
			if err := s.add(it.Value(), depth+1, indent); err != nil {
				return err
			}
		}
	}
	switch {
	case s.values < 0 || depth > maxDepth:
		return errValues
	case s.text < 0:
		return errText
	}
	return nil
}

func textAt(args []any, i int) string {
	if i < len(args) {
		s, _ := args[i].(string)
		return s
	}
	return ""
}

func count(args []any, i int) int {
	if i < len(args) {
		if v := reflect.ValueOf(args[i]); v.CanInt() {
			return int(v.Int())
		}
	}
	return 0
}

// product returns a*b, or maxText+1 if the product is larger than maxText.
func product(a, b int) int {
	if a > 0 && b > maxText/a {
		return maxText + 1
	}
	return a * max(b, 0)
}

// take counts n bytes that the expressions make for a record.
func (e *environment) take(n int) error {
	if e.text += n; e.text > maxText || n > maxText {
		return errText
	}
	return nil
}

// boundFunctions returns options that add a check before each function in growth.
func (e *environment) boundFunctions() (options []lang.Option) {
	for name, grows := range growth {
		original := builtin.Builtins[builtin.Index[name]]
		var types []any
		for _, t := range original.Types {
			types = append(types, reflect.New(t).Interface())
		}
		options = append(options, lang.DisableBuiltin(name), lang.Function(name, func(args ...any) (any, error) {
			err := e.ended()
			var n int
			if err == nil {
				n, err = grows(e, args)
			}
			if err == nil {
				err = e.take(n)
			}
			if err != nil {
				return nil, err
			}
			return callBuiltin(original, args)
		}, types...))
	}
	return options
}

func callBuiltin(f *builtin.Function, args []any) (any, error) {
	switch {
	case f.Fast != nil:
		return f.Fast(args[0]), nil
	case f.Safe != nil:
		v, _, err := f.Safe(args...)
		return v, err
	}
	return f.Func(args...)
}

// countText wraps + where the result may be text.
func (e *environment) countText(args ...any) (any, error) {
	if s, ok := args[0].(string); ok {
		return s, e.take(len(s))
	}
	return args[0], nil
}

// checkEqual wraps the operands of comparisons, because a comparison walks whole values.
func (e *environment) checkEqual(args ...any) (any, error) {
	switch args[0].(type) {
	case nil, string, bool, float64, int64, int:
		return args[0], nil
	}
	s := sizes{values: maxValues, text: maxText}
	if err := s.add(reflect.ValueOf(args[0]), 0, 0); err != nil {
		return nil, err
	}
	if e.steps += (maxValues - s.values) / valuesOfStep; e.steps > maxSteps {
		return nil, errSteps
	}
	return args[0], nil
}

// valuesOfStep is the number of values that can be compared in about the time of a step.
const valuesOfStep = 4

// bound adds checks to the operators that make text or walk whole values.
type bound struct{ done map[ast.Node]bool }

// Visit implements ast.Visitor.
func (b bound) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || b.done[*node] {
		return
	}
	b.done[*node] = true
	switch n.Operator {
	case "+":
		if t := n.Type(); t != nil && t.Kind() != reflect.String && t.Kind() != reflect.Interface {
			return
		}
		name := "countAny"
		if t := n.Type(); t != nil && t.Kind() == reflect.String {
			name = "countText"
		}
		*node = call(name, n)
	case "==", "!=", "in", "not in":
		n.Left, n.Right = checked(n.Left), checked(n.Right)
	}
}

// checked returns a check of the value of n, or n itself if it cannot be a list or object.
func checked(n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.NilNode, *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.ConstantNode,
		*ast.ArrayNode:
		return n
	}
	t := n.Type()
	if t == nil || t.Kind() != reflect.Interface && t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
		return n
	}
	return call("checkEqual", n)
}

func call(name string, argument ast.Node) ast.Node {
	c := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: []ast.Node{argument}}
	c.SetLocation(argument.Location())
	return c
}
