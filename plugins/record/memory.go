package record

import "encoding/json"

// Memory estimates the memory of a copy of r in bytes, as if texts were not shared.
func (r *Record) Memory() int {
	n := decodedOverhead + len(r.Position) + r.Metadata.memory()
	return n + r.Key.memory() + r.Before.memory() + r.After.memory()
}

// memory estimates the memory of m in bytes.
func (m Metadata) memory() (n int) {
	for i := range m {
		n += len(m[i].Key) + len(m[i].Value)
	}
	return n + fieldMemory*len(m)
}

func (d *Data) memory() int {
	if d.kind != structured {
		return len(d.raw)
	}
	if b, ok := d.encoded.wire(); ok {
		return len(b)
	}
	return max(0, valueMemory(d.object(), 0))
}

// Memory of a value in a list, of an object member without its texts, of an object without its members, and of a
// metadata pair without its texts, in bytes.
const (
	itemMemory   = 24
	memberMemory = 48
	objectMemory = 64
	fieldMemory  = 32
)

// ValueMemory estimates the memory of v, a value of structured data, in bytes. It is 0 for a value nested too deeply
// for every encoder.
func ValueMemory(v any) int { return max(0, valueMemory(v, 0)) }

// valueMemory returns tooDeep for a value that is too deep.
func valueMemory(v any, depth int) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case json.Number:
		return len(v)
	case []any:
		if depth > maxJSONDepth {
			return tooDeep
		}
		for _, e := range v {
			k := valueMemory(e, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += k
		}
		return n + itemMemory*len(v)
	case map[string]any:
		if depth > maxJSONDepth {
			return tooDeep
		}
		for name, e := range v {
			k := valueMemory(e, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += len(name) + k
		}
		return n + objectMemory + memberMemory*len(v)
	}
	return 0
}
