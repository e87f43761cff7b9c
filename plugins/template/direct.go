package template

import (
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
	"unsafe"

	"github.com/conduit-agent/conduit/plugins/record"
)

// part is text, or an expression to print.
type part struct {
	text string
	eval expression // nil: text, or json
	json encoder    // nil: text, or eval
}

// encoder appends the JSON form of something. It returns false where an expression does.
type encoder func(dst []byte, r *record.Record) ([]byte, bool)

// expression is evaluated without text/template. It returns false for values that only text/template can handle. The
// template is then executed by text/template, so that results and errors are always the same.
type expression func(r *record.Record) (value, bool)

// value is the value of an expression. It is made without allocation, and valid until the record changes.
type value struct {
	kind kind
	s    string
	n    int64 // integer, boolean or operation
	f    float64
}

type kind uint8

const (
	missing kind = iota // a key that the map does not have
	str
	raw // bytes, as text
	integer
	float
	boolean
	operation
)

// compiler compiles expressions to direct access.
type compiler struct {
	strict bool
	path   *pathOptions // nil: the template is no path
}

// parts returns the parts of a template that consists of text and direct-access expressions, or nil for any other
// template.
func (c compiler) parts(root *parse.ListNode) []part {
	parts := make([]part, 0, len(root.Nodes))
	for _, n := range root.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			parts = append(parts, part{text: string(n.Text)})
		case *parse.CommentNode:
		case *parse.ActionNode:
			if j := c.json(n.Pipe); j != nil {
				parts = append(parts, part{json: j})
				continue
			}
			e := c.pipe(n.Pipe)
			if e == nil {
				return nil
			}
			parts = append(parts, part{eval: e})
		default:
			return nil
		}
	}
	return parts
}

func (c compiler) pipe(p *parse.PipeNode) expression {
	if len(p.Decl) > 0 {
		return nil
	}
	var last expression
	for i, command := range p.Cmds {
		var extra []expression
		if i > 0 {
			extra = []expression{last}
		}
		if last = c.command(command, extra); last == nil {
			return nil
		}
	}
	return last
}

// command compiles a call or a single operand. extra is the piped argument.
func (c compiler) command(n *parse.CommandNode, extra []expression) expression {
	id, ok := n.Args[0].(*parse.IdentifierNode)
	if !ok {
		if len(n.Args) > 1 || len(extra) > 0 {
			return nil
		}
		return c.operand(n.Args[0])
	}
	operands := n.Args[1:]
	switch id.Ident {
	case "index":
		return c.index(operands, extra)
	case strftimeName:
		if len(extra) > 0 {
			return nil
		}
		return c.strftime(operands)
	case "printf":
		if len(operands) == 0 || len(operands)+len(extra) != 2 {
			return nil
		}
		if s, ok := operands[0].(*parse.StringNode); !ok || s.Text != "%s" {
			return nil
		}
		operands = operands[1:]
	}
	args := make([]expression, 0, len(n.Args))
	for _, a := range operands {
		e := c.operand(a)
		if e == nil {
			return nil
		}
		args = append(args, e)
	}
	return compileCall(id.Ident, append(args, extra...))
}

func (c compiler) operand(n parse.Node) expression {
	switch n := n.(type) {
	case *parse.StringNode:
		return constant(value{kind: str, s: n.Text})
	case *parse.BoolNode:
		return constant(truth(n.True))
	case *parse.NumberNode:
		switch {
		case n.IsFloat && strings.ContainsAny(n.Text, ".eEpP") && !strings.HasPrefix(n.Text, "0x") && n.Text[0] != '\'':
			return constant(value{kind: float, f: n.Float64})
		case n.IsInt:
			return constant(value{kind: integer, n: n.Int64})
		}
	case *parse.PipeNode:
		return c.pipe(n)
	case *parse.FieldNode:
		return c.field(n.Ident)
	}
	return nil
}

// isPayload reports whether the template is .Payload.After, or its printf "%s". All actions are direct access.
func isPayload(root *parse.ListNode) bool {
	for _, n := range root.Nodes {
		action, ok := n.(*parse.ActionNode)
		if !ok {
			continue
		}
		if len(action.Pipe.Cmds) != 1 {
			return false
		}
		args := action.Pipe.Cmds[0].Args
		if id, ok := args[0].(*parse.IdentifierNode); ok && id.Ident == "printf" { // its format is "%s"
			args = args[2:]
		}
		field, ok := args[0].(*parse.FieldNode)
		return ok && slices.Equal(field.Ident, []string{"Payload", "After"})
	}
	return false
}

func constant(v value) expression { return func(*record.Record) (value, bool) { return v, true } }

func truth(b bool) value {
	if b {
		return value{kind: boolean, n: 1}
	}
	return value{kind: boolean}
}

// field compiles .Metadata.key, .Operation, .Key.a.b and so on.
func (c compiler) field(path []string) expression {
	e := field(path)
	if e == nil || !c.strict {
		return e
	}
	return func(r *record.Record) (value, bool) {
		v, ok := e(r)
		return v, ok && v.kind != missing
	}
}

func field(path []string) expression {
	switch {
	case path[0] == "Metadata" && len(path) == 2 && textMethods[path[1]] != "":
		key := textMethods[path[1]]
		return func(r *record.Record) (value, bool) {
			v, _ := metadataValue(r, key)
			return v, v.kind != missing // text/template has the error
		}
	case isMethod(path):
		return nil
	case path[0] == "Metadata" && len(path) == 2:
		key := path[1]
		return func(r *record.Record) (value, bool) { return metadataValue(r, key) }
	case path[0] == "Operation" && len(path) == 1:
		return func(r *record.Record) (value, bool) { return value{kind: operation, n: int64(r.Operation)}, true }
	case path[0] == "Operation" && len(path) == 2 && path[1] == "String":
		return func(r *record.Record) (value, bool) { return value{kind: str, s: r.Operation.String()}, true }
	case path[0] == "Key":
		return dataField(func(r *record.Record) record.Data { return r.Key }, path[1:])
	case path[0] == "Payload" && len(path) > 1 && path[1] == "Before":
		return dataField(func(r *record.Record) record.Data { return r.Before }, path[2:])
	case path[0] == "Payload" && len(path) > 1 && path[1] == "After":
		return dataField(func(r *record.Record) record.Data { return r.After }, path[2:])
	}
	return nil
}

func metadataValue(r *record.Record, key string) (value, bool) {
	for i := range r.Metadata {
		if r.Metadata[i].Key == key {
			return value{kind: str, s: r.Metadata[i].Value}, true
		}
	}
	return value{}, true
}

func dataField(data func(*record.Record) record.Data, path []string) expression {
	if len(path) == 0 {
		return func(r *record.Record) (value, bool) {
			b, ok := data(r).Raw()
			if !ok {
				return value{}, false
			}
			return value{kind: raw, s: unsafe.String(unsafe.SliceData(b), len(b))}, true
		}
	}
	last := len(path) - 1
	return func(r *record.Record) (value, bool) {
		m, ok := data(r).Structured()
		for _, name := range path[:last] {
			if !ok {
				return value{}, false
			}
			m, ok = m[name].(map[string]any)
		}
		if !ok || m == nil {
			return value{}, false
		}
		v, ok := m[path[last]]
		if !ok {
			return value{}, true
		}
		return valueOf(v)
	}
}

func valueOf(v any) (value, bool) {
	switch v := v.(type) {
	case string:
		return value{kind: str, s: v}, true
	case bool:
		return truth(v), true
	case int64:
		return value{kind: integer, n: v}, true
	case int:
		return value{kind: integer, n: int64(v)}, true
	case float64:
		return value{kind: float, f: v}, true
	}
	return value{}, false
}

// index compiles the index of a string key in the metadata or in an object.
func (compiler) index(args []parse.Node, extra []expression) expression {
	if len(extra) > 0 || len(args) < 2 {
		return nil
	}
	root, ok := args[0].(*parse.FieldNode)
	if !ok {
		return nil
	}
	path := append([]string{}, root.Ident...)
	for _, a := range args[1:] {
		s, ok := a.(*parse.StringNode)
		if !ok {
			return nil
		}
		path = append(path, s.Text)
	}
	e := field(path)
	if e == nil || path[0] == "Operation" || path[0] == "Payload" && len(root.Ident) < 2 {
		return nil
	}
	return func(r *record.Record) (value, bool) {
		v, ok := e(r) // the index of a missing key is the zero value of the map's element type
		if path[0] == "Metadata" && v.kind == missing {
			v = value{kind: str}
		}
		return v, ok && v.kind != missing
	}
}

// append appends the text of v. With strict, it returns false for a missing value.
func (v value) append(dst []byte, strict bool) ([]byte, bool) {
	switch v.kind {
	case str, raw:
		return append(dst, v.s...), true
	case integer:
		return strconv.AppendInt(dst, v.n, 10), true
	case float:
		dst, err := record.AppendText(dst, v.f)
		return dst, err == nil
	case boolean:
		return strconv.AppendBool(dst, v.n != 0), true
	case operation:
		return append(dst, record.Operation(v.n).String()...), true
	}
	return dst, !strict
}
