package expr

import (
	"context"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Expression is a compiled expression over a record, in the language of expr.map. It must not be used concurrently.
type Expression struct {
	environment *environment
	program     *program
	fields      fieldsRead
}

// Compile compiles and type-checks the expression in a setting. An error has the place in the setting.
func Compile(ctx context.Context, setting, text string) (*Expression, error) {
	x := &Expression{environment: newEnvironment(ctx), fields: fieldsRead{}}
	var err error
	x.program, err = x.environment.compile(source{setting: setting, text: text}, text, lang.Patch(x.fields))
	return x, err
}

// Value evaluates the expression for r, until ctx ends. The value shares nothing with r.
func (x *Expression) Value(ctx context.Context, r *record.Record) (any, error) {
	x.environment.begin(ctx)
	x.environment.show(r)
	v, err := x.program.run(x.environment)
	if err != nil {
		return nil, err
	}
	return own(v, 0)
}

// ReadsAfter reports whether the expression reads the payload after the change.
func (x *Expression) ReadsAfter() bool { return x.environment.used["after"] }

// Lacks reports whether r lacks the payload after the change, or a field in it, that the expression reads.
func (x *Expression) Lacks(r *record.Record) bool {
	if !x.ReadsAfter() {
		return false
	}
	if r.After.IsNone() {
		return true
	}
	after, ok := r.After.Structured()
	for name := range x.fields {
		if _, has := after[name]; ok && !has {
			return true
		}
	}
	return false
}

// fieldsRead collects the names of the fields of after that an expression reads.
type fieldsRead map[string]struct{}

// Visit adds the name of the field that the node reads.
func (f fieldsRead) Visit(node *ast.Node) {
	member, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	name, ok := member.Property.(*ast.StringNode)
	if parent, is := member.Node.(*ast.IdentifierNode); ok && is && parent.Value == "after" {
		f[name.Value] = struct{}{}
	}
}
