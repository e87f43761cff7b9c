package javascript

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"reflect"
	"slices"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"
)

// With BigInts, ** and << alone can make numbers of any size, and a long template makes a text of many others at once.
// Both are one instruction, which cannot be interrupted. So operands are checked, and templates are split.

// checkName is the name of the function that checks operands. Scripts cannot know the name beforehand, and cannot
// compile code afterwards.
var checkName = "operand" + rand.Text()

// defineOperand defines the function checkName.
func (n *natives) defineOperand() {
	n.keep(n.vm.GlobalObject().DefineDataProperty(checkName, n.vm.ToValue(func(c goja.FunctionCall) goja.Value {
		v := c.Argument(0)
		if _, ok := v.(*goja.Object); ok { // exporting an object, such as a Map, would export all its content
			number, err := n.number(goja.Undefined(), v)
			if err != nil {
				panic(err)
			}
			v = number
		}
		i, ok := v.Export().(*big.Int)
		if !ok {
			return v
		}
		limit := c.Argument(1).ToInteger()
		if bits := c.Argument(2).ToBoolean(); bits && int64(i.BitLen()) > limit || !bits &&
			i.CmpAbs(big.NewInt(limit)) > 0 {
			n.throw("a BigInt is too large for this operator")
		}
		return v
	}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
}

// checkOperators adds checks of the operands of ** and << to a program, and splits long templates. It refuses with
// statements, because a script could use them to replace the checking function.
func checkOperators(tree *ast.Program) error {
	seen := make(map[any]bool)
	for todo := []reflect.Value{reflect.ValueOf(tree.Body)}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch v.Kind() {
		case reflect.Interface:
			if t, ok := v.Interface().(*ast.TemplateLiteral); ok && v.CanSet() && t.Tag == nil &&
				len(t.Expressions) > 2 {
				v.Set(reflect.ValueOf(splitTemplate(t)))
			}
			if !v.IsNil() {
				todo = append(todo, v.Elem())
			}
		case reflect.Pointer:
			if v.IsNil() || v.Type().Elem().PkgPath() != reflect.TypeFor[ast.Program]().PkgPath() ||
				seen[v.Interface()] {
				continue
			}
			seen[v.Interface()] = true
			switch node := v.Interface().(type) {
			case *ast.WithStatement:
				return &goja.CompilerSyntaxError{CompilerError: goja.CompilerError{File: tree.File,
					Offset:  int(node.With) - 1,
					Message: "scripts cannot use the statement with: name the object before each member"}}
			case *ast.BinaryExpression:
				node.Left, node.Right = checkOperands(node.Operator, node.Left, node.Right)
			case *ast.AssignExpression:
				if name, ok := node.Left.(*ast.Identifier); ok && node.Operator == token.EXPONENT {
					node.Operator = token.ASSIGN
					node.Right = &ast.BinaryExpression{Operator: token.EXPONENT, Left: name, Right: node.Right}
				} else {
					_, node.Right = checkOperands(node.Operator, nil, node.Right)
				}
			}
			todo = append(todo, v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				todo = append(todo, v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					todo = append(todo, v.Field(i))
				}
			}
		}
	}
	return nil
}

func checkOperands(operator token.Token, left, right ast.Expression) (l, r ast.Expression) {
	switch operator {
	case token.EXPONENT:
		if left == nil {
			return nil, checkedOperand(right, 10, false)
		}
		return checkedOperand(left, maxBits, true), checkedOperand(right, maxExponent, false)
	case token.SHIFT_LEFT, token.SHIFT_RIGHT: // a shift by a negative number shifts in the other direction
		return left, checkedOperand(right, maxShift, false)
	}
	return left, right
}

// checkedOperand returns a call of the function checkName with e.
func checkedOperand(e ast.Expression, limit int64, bits bool) ast.Expression {
	return &ast.CallExpression{Callee: &ast.Identifier{Name: unistring.NewFromString(checkName), Idx: e.Idx0()},
		LeftParenthesis: e.Idx0(), RightParenthesis: e.Idx1(), ArgumentList: []ast.Expression{e,
			&ast.NumberLiteral{Idx: e.Idx0(), Literal: fmt.Sprint(limit), Value: limit},
			&ast.BooleanLiteral{Idx: e.Idx0(), Literal: fmt.Sprint(bits), Value: bits}}}
}

// splitTemplate returns a sum of templates with two values each.
func splitTemplate(t *ast.TemplateLiteral) (sum ast.Expression) {
	for i := 0; i < len(t.Expressions); i += 2 {
		end := min(i+2, len(t.Expressions))
		last := &ast.TemplateElement{Idx: t.Elements[end].Idx, Valid: true}
		if end == len(t.Expressions) {
			last = t.Elements[end]
		}
		part := &ast.TemplateLiteral{OpenQuote: t.OpenQuote, CloseQuote: t.CloseQuote,
			Elements: append(slices.Clone(t.Elements[i:end]), last), Expressions: t.Expressions[i:end]}
		if sum == nil {
			sum = part
		} else {
			sum = &ast.BinaryExpression{Operator: token.PLUS, Left: sum, Right: part}
		}
	}
	return sum
}
