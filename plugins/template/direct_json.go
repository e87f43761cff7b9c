package template

import (
	"encoding/json"
	"strconv"
	"text/template/parse"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// json compiles an action that prints the result of toJson, whose argument is an operand or piped. It returns nil for
// other actions.
func (c compiler) json(p *parse.PipeNode) encoder {
	last := p.Cmds[len(p.Cmds)-1]
	if id, ok := last.Args[0].(*parse.IdentifierNode); !ok || len(p.Decl) > 0 || id.Ident != "toJson" &&
		id.Ident != "mustToJson" {
		return nil
	}
	var operand parse.Node
	switch {
	case len(p.Cmds) == 1 && len(last.Args) == 2:
		operand = last.Args[1]
	case len(p.Cmds) == 1 || len(last.Args) > 1:
		return nil
	case len(p.Cmds) == 2 && len(p.Cmds[0].Args) == 1:
		operand = p.Cmds[0].Args[0]
	default:
		piped := *p
		piped.Cmds = p.Cmds[:len(p.Cmds)-1]
		operand = &piped
	}
	if f, ok := operand.(*parse.FieldNode); ok {
		if data := wholeData(f.Ident); data != nil {
			return objectEncoder(data)
		}
	}
	if e := c.operand(operand); e != nil {
		return valueEncoder(e)
	}
	return nil
}

// wholeData returns the data of a record that a path names without a field of it; nil: it names something else.
func wholeData(path []string) func(*record.Record) record.Data {
	switch {
	case len(path) == 1 && path[0] == "Key":
		return func(r *record.Record) record.Data { return r.Key }
	case len(path) == 2 && path[0] == "Payload" && path[1] == "Before":
		return func(r *record.Record) record.Data { return r.Before }
	case len(path) == 2 && path[0] == "Payload" && path[1] == "After":
		return func(r *record.Record) record.Data { return r.After }
	}
	return nil
}

// maxDirect bounds an object that is encoded without text/template, which has the errors for large ones.
const maxDirect = 10_000

func objectEncoder(data func(*record.Record) record.Data) encoder {
	return func(dst []byte, r *record.Record) ([]byte, bool) {
		d := data(r)
		m, ok := d.Structured()
		if w := (weight{nodes: maxDirect, bytes: maxOutput / 8}); !ok || !w.small(m, 0) {
			return dst, false
		}
		out, err := d.AppendJSON(dst)
		return out, err == nil
	}
}

// small reports whether a value consists of the types of structured data and is within the bounds, which it uses up.
func (w *weight) small(v any, depth int) bool {
	if w.nodes--; w.nodes < 0 || depth >= maxDepth {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for key, one := range v {
			if w.bytes -= len(key); !w.small(one, depth+1) {
				return false
			}
		}
	case []any:
		for _, one := range v {
			if !w.small(one, depth+1) {
				return false
			}
		}
	case string:
		w.bytes -= len(v)
	case json.Number:
		w.bytes -= len(v)
	case []byte:
		w.bytes -= len(v)
	case nil, bool, int, int64, float64, time.Time:
	default:
		return false
	}
	return w.bytes >= 0
}

func valueEncoder(e expression) encoder {
	return func(dst []byte, r *record.Record) ([]byte, bool) {
		v, ok := e(r)
		if !ok {
			return dst, false
		}
		switch v.kind {
		case str:
			return record.AppendJSONText(dst, v.s), len(v.s) <= maxOutput/8
		case integer:
			return strconv.AppendInt(dst, v.n, 10), true
		case boolean:
			return strconv.AppendBool(dst, v.n != 0), true
		case float:
			out, err := record.AppendValue(dst, v.f)
			return out, err == nil
		}
		return dst, false
	}
}
