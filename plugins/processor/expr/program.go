package expr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	maxLength = 64 << 10  // bytes of an expression: parsing takes up to 1 kB of the 1 GB stack for each byte
	maxNodes  = 5000      // nodes of an expression
	maxSteps  = 1_000_000 // elements that the predicates of an expression may visit for a record
	maxMemory = 1_000_000 // elements of lists and texts that an expression may make for a record
)

// names are the names available in expressions. The fields of an object are unknown before a record arrives, so their
// values have any type.
var names = types.Map{
	"operation": types.String,
	"position":  types.Any,
	"metadata":  types.TypeOf(map[string]string{}),
	"key":       types.Any,
	"before":    types.Any,
	"after":     types.Any,
}

// environment is the environment in which the expressions of a processor run.
type environment struct {
	clock  sdk.Clock
	limit  time.Duration   // time limit of the expressions for one record; 0: none
	ctx    context.Context // context of the batch
	since  time.Time       // time of the first check of the limit for the record; zero: not checked yet
	steps  int
	text   int // bytes of text made for the record
	values map[string]any
	used   map[string]bool
	vm     vm.VM
}

func newEnvironment(ctx context.Context) *environment {
	e := &environment{clock: sdk.EnvFrom(ctx).Clock, values: make(map[string]any, len(names)), used: map[string]bool{}}
	for name := range names {
		e.values[name] = nil
	}
	e.vm.MemoryBudget = maxMemory
	return e
}

// compile compiles and type-checks an expression. The setting, its text and the offset of the expression in it are used
// in errors.
func (e *environment) compile(in source, expression string, options ...lang.Option) (*program, error) {
	if len(expression) > maxLength {
		return nil, in.describe(fmt.Errorf("it has %d bytes, and may have %d", len(expression), maxLength))
	}
	uses := &namesUsed{used: e.used}
	options = append(options, e.boundFunctions()...)
	compile := func(further ...lang.Option) (*vm.Program, error) {
		return lang.Compile(expression,
			append(append([]lang.Option{lang.Env(names), lang.MaxNodes(maxNodes)}, further...), options...)...)
	}
	options = append([]lang.Option{
		lang.Patch(countSteps{}), lang.Patch(uses), lang.Patch(bound{map[ast.Node]bool{}}),
		lang.Function("countText", e.countText, new(func(string) string)),
		lang.Function("countAny", e.countText, new(func(any) any)),
		lang.Function("checkEqual", e.checkEqual, new(func(any) any)),
		lang.Function("countStep", e.countStep, new(func(any) any)),
		lang.DisableBuiltin("now"), lang.Function("now", e.now, new(func() time.Time)),
		lang.Function("text", e.boundText, new(func(any) string)),
		lang.Function("string", e.boundText, new(func(any) string)),
	}, options...)
	compiled, err := compile()
	if err != nil {
		return nil, in.describe(err)
	}
	return &program{source: in, compiled: compiled, compile: compile}, nil
}

func (e *environment) now(...any) (any, error) {
	if e.clock != nil {
		return e.clock.Now(), nil
	}
	return time.Now(), nil
}

var errSteps = fmt.Errorf("it visits more than %d elements", maxSteps)

// countStep wraps the predicate of every list element: nested loops could otherwise run for years.
func (e *environment) countStep(args ...any) (any, error) {
	if e.steps++; e.steps > maxSteps {
		return nil, errSteps
	}
	if e.steps%64 == 0 {
		return args[0], e.ended()
	}
	return args[0], nil
}

// begin begins a batch.
func (e *environment) begin(ctx context.Context) { e.ctx, e.limit = ctx, sdk.EnvFrom(ctx).TimeLimit }

// ended returns the reason why the expressions for the record must stop, or nil if they may continue.
func (e *environment) ended() error {
	if e.ctx == nil {
		return nil
	}
	if err := context.Cause(e.ctx); err != nil {
		return err
	}
	if e.limit <= 0 {
		return nil
	}
	now := time.Now()
	if e.since.IsZero() {
		e.since = now
	}
	if now.Sub(e.since) >= e.limit {
		return &sdk.TimeLimitError{Limit: e.limit}
	}
	return nil
}

type countSteps struct{}

// Visit wraps the body of a predicate in countStep.
func (countSteps) Visit(node *ast.Node) {
	predicate, ok := (*node).(*ast.PredicateNode)
	if !ok {
		return
	}
	if call, ok := predicate.Node.(*ast.CallNode); ok {
		if name, ok := call.Callee.(*ast.IdentifierNode); ok && name.Value == "countStep" {
			return
		}
	}
	call := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "countStep"}, Arguments: []ast.Node{predicate.Node}}
	call.SetLocation(predicate.Node.Location())
	predicate.Node = call
}

// namesUsed collects the names that expressions use.
type namesUsed struct{ used map[string]bool }

// Visit adds the name of the node.
func (n *namesUsed) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		n.used[id.Value] = true
	}
}

// text is a function of expressions, also available as string. It formats a value like templates do, and durations and
// similar types with their String method.
func text(args ...any) (any, error) {
	switch v := args[0].(type) {
	case time.Time:
	case fmt.Stringer:
		return v.String(), nil
	}
	return record.Text(args[0])
}

// boundText is text for values within the size bound.
func (e *environment) boundText(args ...any) (any, error) {
	n, err := textSize(args[0], 1)
	if err == nil {
		err = e.take(n)
	}
	if err != nil {
		return nil, err
	}
	return text(args...)
}

// parts returns the parts of a record that must be decoded for the expressions.
func (e *environment) parts() schema.Parts {
	return schema.Parts{Key: e.used["key"], Payload: e.used["before"] || e.used["after"]}
}

// show makes r the record that the expressions read.
func (e *environment) show(r *record.Record) {
	e.text, e.since = 0, time.Time{}
	if e.used["after"] {
		e.values["after"] = value(r.After)
	}
	if e.used["before"] {
		e.values["before"] = value(r.Before)
	}
	if e.used["key"] {
		e.values["key"] = value(r.Key)
	}
	if e.used["metadata"] {
		e.values["metadata"] = r.Metadata.Map()
	}
	if e.used["operation"] {
		e.values["operation"] = r.Operation.String()
	}
	if e.used["position"] {
		e.values["position"] = []byte(r.Position)
	}
}

// value returns the value of d: nil, []byte or map[string]any.
func value(d record.Data) any {
	if m, ok := d.Structured(); ok {
		return m
	}
	if b, ok := d.Raw(); ok {
		return b
	}
	return nil
}

// program is a compiled expression.
type program struct {
	source   source
	compiled *vm.Program
	exact    *vm.Program // program with checks for json.Number; nil before the first one
	compile  compiler
}

// run evaluates the expression for the record of the last call of show.
func (p *program) run(e *environment) (any, error) {
	e.steps = 0
	made := e.text
	v, err := e.vm.Run(p.compiled, e.values)
	if err != nil && e.ended() == nil {
		e.text = made
		v, err = p.rerun(e, err)
	}
	if err == nil {
		err = checkSize(v)
	}
	if err != nil {
		return nil, p.source.describe(err)
	}
	return v, nil
}

// source is the position of an expression, for errors.
type source struct {
	setting string
	text    string // text of the setting
	line    int    // first line of the expression in text, from 0
	column  int    // column of the expression in that line, from 0
}

// describe returns err with the place in the setting, and the source line with a caret.
func (s source) describe(err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return fmt.Errorf("%s: %w", s.setting, err)
	}
	line, column := s.line+max(at.Line, 1)-1, at.Column
	if at.Line <= 1 {
		column += s.column
	}
	lines := strings.Split(s.text, "\n")
	shown := ""
	if line < len(lines) {
		shown = fmt.Sprintf("\n| %s\n| %s^", strings.ReplaceAll(lines[line], "\t", " "), strings.Repeat(" ", column))
	}
	return fmt.Errorf("%s:%d:%d: %s%s", s.setting, line+1, column+1, at.Message, shown)
}

// maxDepth bounds the nesting depth of the result of an expression.
const maxDepth = 1000

// own returns a copy of v as structured data that shares nothing with a record.
func own(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case nil, bool, string, int8, int16, int32, int64, uint, uint8, uint16,
		uint32, uint64, float32, float64, json.Number, time.Time, time.Duration:
		return v, nil
	case []byte:
		return append([]byte{}, v...), nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			var err error
			if out[k], err = own(e, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return ownReflected(reflect.ValueOf(v), depth)
}

// ownReflected is own for lists and maps of other types.
func ownReflected(v reflect.Value, depth int) (_ any, err error) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			if out[i], err = own(v.Index(i).Interface(), depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for _, k := range v.MapKeys() {
			name, err := record.Text(k.Interface())
			if err != nil {
				return nil, err
			}
			if out[name], err = own(v.MapIndex(k).Interface(), depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be in a record", v.Type())
}
