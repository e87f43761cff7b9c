package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/expr-lang/expr/vm/runtime"
)

// A number that float64 cannot represent exactly is a json.Number. The operators of expressions do not support it, so
// an expression that computes with it or orders it fails. Only then is the expression compiled again with checks around
// operators and functions, and evaluated again. All other evaluations have no extra cost.

// hasNumbers reports whether a value visible to expressions contains a json.Number.
func hasNumbers(v any, depth int) bool {
	switch v := v.(type) {
	case json.Number:
		return true
	case map[string]any:
		for _, inner := range v {
			if depth < maxDepth && hasNumbers(inner, depth+1) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if depth < maxDepth && hasNumbers(inner, depth+1) {
				return true
			}
		}
	}
	return false
}

// rerun evaluates the expression with checks for json.Number. It returns failed if the record has no such number.
func (p *program) rerun(e *environment, failed error) (any, error) {
	if p.exact == nil {
		if !hasNumbers(map[string]any(e.values), 0) {
			return nil, failed
		}
		again, err := p.compile(withNumbers()...)
		if err != nil {
			return nil, failed
		}
		p.exact = again
	}
	e.steps = 0
	return e.vm.Run(p.exact, e.values)
}

// compiler compiles the text of a program with additional options.
type compiler func(options ...lang.Option) (*vm.Program, error)

var orderings = map[string]func(a, b any) bool{
	"<": runtime.Less, ">": runtime.More, "<=": runtime.LessOrEqual, ">=": runtime.MoreOrEqual,
}

var orderingNames = map[string]string{"<": "isLess", ">": "isMore", "<=": "isLessOrEqual", ">=": "isMoreOrEqual"}

func withNumbers() []lang.Option {
	options := []lang.Option{
		lang.Patch(numbers{map[ast.Node]bool{}}),
		lang.Function("rounded", rounded, new(func(any) any)), lang.Function("whole", whole, new(func(any) any)),
	}
	for operator, name := range orderingNames {
		options = append(options, lang.Function(name, func(args ...any) (any, error) {
			if order, ok := compareNumbers(args[0], args[1]); ok {
				return orderings[operator](order, 0), nil
			}
			return orderings[operator](args[0], args[1]), nil
		}, new(func(any, any) bool)))
	}
	return options
}

// numbers adds checks around operations on numbers.
type numbers struct{ done map[ast.Node]bool }

// Visit implements ast.Visitor.
func (p numbers) Visit(node *ast.Node) {
	if p.done[*node] {
		return
	}
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "+", "-", "*", "/", "%", "**", "^":
			n.Left, n.Right = call("rounded", n.Left), call("rounded", n.Right)
		case "<", ">", "<=", ">=":
			c := call(orderingNames[n.Operator], n.Left)
			c.(*ast.CallNode).Arguments = []ast.Node{n.Left, n.Right}
			*node = c
		}
	case *ast.UnaryNode:
		if n.Operator == "-" || n.Operator == "+" {
			n.Node = call("rounded", n.Node)
		}
	case *ast.BuiltinNode:
		p.arguments(n.Name, n.Arguments)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			p.arguments(id.Value, n.Arguments)
		}
	default:
		return
	}
	p.done[*node] = true
}

func (p numbers) arguments(function string, all []ast.Node) {
	with := "rounded"
	switch function {
	case "int":
		with = "whole"
	case "abs", "ceil", "floor", "round", "float", "max", "min", "sum", "mean", "median":
	default:
		return
	}
	for i, argument := range all {
		if predicate, ok := argument.(*ast.PredicateNode); ok {
			predicate.Node = call(with, predicate.Node)
			continue
		}
		all[i] = call(with, argument)
	}
}

// rounded returns the nearest float64 for a json.Number, applies this to each element of a list, and returns other
// values unchanged.
func rounded(args ...any) (any, error) {
	switch v := args[0].(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("cannot compute with %.50s, which is out of the range of a float", v)
		}
		return f, nil
	case []any:
		if !hasNumbers(v, maxDepth-1) {
			return v, nil
		}
		all := make([]any, len(v))
		for i := range v {
			var err error
			if all[i], err = rounded(v[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return args[0], nil
}

var errWhole = errors.New("it is no integer of 64 bits")

// whole rounds for the function int, which would convert a number outside its range to a different number.
func whole(args ...any) (any, error) {
	v, err := rounded(args...)
	if f, ok := v.(float64); ok && math.Abs(f) >= 1<<63 {
		return nil, fmt.Errorf("cannot convert %v: %w", args[0], errWhole)
	}
	return v, err
}

// compareNumbers compares two numbers by all their digits. At least one must be a json.Number; otherwise ok is false.
func compareNumbers(a, b any) (order int, ok bool) {
	_, textA := a.(json.Number)
	_, textB := b.(json.Number)
	x, okA := exactly(a)
	y, okB := exactly(b)
	if !textA && !textB || !okA || !okB {
		return 0, false
	}
	return x.Cmp(y), true
}

// exactly returns a number with enough precision to tell all different numbers apart, except texts of more than 150
// digits.
func exactly(v any) (*big.Float, bool) {
	x := new(big.Float).SetPrec(512)
	switch v := v.(type) {
	case json.Number:
		_, _, err := x.Parse(string(v), 10)
		return x, err == nil
	case float64:
		if math.IsNaN(v) {
			return nil, false
		}
		return x.SetFloat64(v), true
	case float32:
		return exactly(float64(v))
	case int:
		return x.SetInt64(int64(v)), true
	case int64:
		return x.SetInt64(v), true
	case int32:
		return x.SetInt64(int64(v)), true
	case int16:
		return x.SetInt64(int64(v)), true
	case int8:
		return x.SetInt64(int64(v)), true
	case uint64:
		return x.SetUint64(v), true
	case uint:
		return x.SetUint64(uint64(v)), true
	case uint32:
		return x.SetUint64(uint64(v)), true
	case uint16:
		return x.SetUint64(uint64(v)), true
	case uint8:
		return x.SetUint64(uint64(v)), true
	}
	return nil, false
}
