package parquet_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
)

// random makes schemas and values.
type random struct {
	*rand.Rand
	names int // of types so far
}

// kind is an Avro type, and a function that makes a value, and the value in a file.
type kind struct {
	avro string
	make func() (value, want any)
}

func same(f func() any) func() (any, any) {
	return func() (any, any) { v := f(); return v, v }
}

// leaf returns a random type without nested types.
func (r *random) leaf() kind {
	text := func() any {
		return strings.Repeat([]string{"", "é", "x,y", "\x00", "NULL"}[r.IntN(5)], r.IntN(4))
	}
	micros := func() any { return time.UnixMicro(r.Int64N(1<<60) - 1<<59).UTC() }
	nanos := func() any { return time.Unix(0, r.Int64()-1<<62).UTC() }
	r.names++
	precision := 1 + r.IntN(38)
	scale := r.IntN(precision + 1)
	return []kind{
		{`"boolean"`, same(func() any { return r.IntN(2) == 0 })},
		{`"int"`, func() (any, any) { n := int32(r.Uint32()); return n, int64(n) }},
		{`"long"`, same(func() any { return int64(r.Uint64()) })},
		{`"double"`, same(func() any { return []float64{r.NormFloat64(), math.Inf(-1), 0, math.MaxFloat64}[r.IntN(4)] })},
		{`"double"`, func() (any, any) { n := r.IntN(1 << 53); return n, float64(n) }},
		{`"string"`, same(text)},
		{`"bytes"`, same(func() any { return []byte(fmt.Sprint(text(), "\xff")) })},
		{`{"type":"int","logicalType":"date"}`, same(func() any {
			return time.Unix((r.Int64N(4_000_000)-2_000_000)*86400, 0).UTC()
		})},
		{`{"type":"long","logicalType":"time-micros"}`, same(func() any {
			return time.Duration(r.Int64N(86_400_000_000)) * time.Microsecond
		})},
		{`{"type":"long","logicalType":"timestamp-micros"}`, same(micros)},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, same(micros)},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, same(nanos)},
		{`{"type":"string","logicalType":"json"}`, func() (any, any) {
			v := map[string]any{"a": text(), "b": []any{1.5, nil, true}}
			b, _ := record.AppendValue(nil, v)
			return v, string(b)
		}},
		{fmt.Sprintf(`{"type":"fixed","name":"t%d","size":16,"logicalType":"uuid"}`, r.names), same(func() any {
			return fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.IntN(1<<48))
		})},
		{fmt.Sprintf(`{"type":"bytes","logicalType":"decimal","precision":%d,"scale":%d}`, precision, scale),
			same(func() any {
				most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(1+r.IntN(precision))), nil)
				n := new(big.Int).Rem(new(big.Int).SetBytes(fmt.Appendf(nil, "%020d", r.Uint64())), most)
				if r.IntN(2) == 0 {
					n.Neg(n)
				}
				return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).
					FloatString(scale)
			})},
	}[r.IntN(15)]
}

// kind returns a random type of a depth, which may be a union with null.
func (r *random) kind(depth int) kind {
	k := r.nested(depth)
	if r.IntN(2) == 0 {
		return k
	}
	return kind{`["null",` + k.avro + `]`, func() (any, any) {
		if r.IntN(3) == 0 {
			return nil, nil
		}
		return k.make()
	}}
}

func (r *random) nested(depth int) kind {
	if depth == 0 || r.IntN(3) == 0 {
		return r.leaf()
	}
	if r.IntN(3) == 0 {
		return r.object(depth, 1+r.IntN(4))
	}
	item := r.kind(depth - 1)
	if r.IntN(2) == 0 {
		return kind{`{"type":"array","items":` + item.avro + `}`, func() (any, any) {
			values, wants := []any{}, []any{}
			for range r.IntN(4) {
				v, want := item.make()
				values, wants = append(values, v), append(wants, want)
			}
			return values, wants
		}}
	}
	return kind{`{"type":"map","values":` + item.avro + `}`, func() (any, any) {
		values, wants := map[string]any{}, map[string]any{}
		for i := range r.IntN(4) {
			values[fmt.Sprint(i)], wants[fmt.Sprint(i)] = item.make()
		}
		return values, wants
	}}
}

func (r *random) object(depth, n int) kind {
	r.names++
	name := fmt.Sprintf("r%d", r.names)
	var fields []kind
	var texts []string
	for i := range n {
		f := r.kind(depth - 1)
		fields, texts = append(fields, f), append(texts, fmt.Sprintf(`{"name":"f%d","type":%s}`, n-i, f.avro))
	}
	return kind{`{"type":"record","name":"` + name + `","fields":[` + strings.Join(texts, ",") + `]}`,
		func() (any, any) {
			values, wants := map[string]any{}, map[string]any{}
			for i, f := range fields {
				values[fmt.Sprintf("f%d", n-i)], wants[fmt.Sprintf("f%d", n-i)] = f.make()
			}
			return values, wants
		}}
}

// TestRandomSchemas reads the same values from files of random records with random schemas.
func TestRandomSchemas(t *testing.T) {
	for seed := range uint64(40) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 0))}
		root := r.object(4, 1+r.IntN(6))
		var records []record.Record
		var wants []map[string]any
		for range 1 + r.IntN(150) {
			value, want := root.make()
			records, wants = append(records, create(value.(map[string]any))), append(wants, want.(map[string]any))
		}
		_, rows := one(t, parquet.NewTable(parquet.Columns{}), parquet.Schemas{Payload: codec(t, root.avro)}, records...)
		if len(rows) != len(wants) {
			t.Fatalf("seed %d: read %d rows of %d", seed, len(rows), len(wants))
		}
		for i := range rows {
			if !reflect.DeepEqual(rows[i], wants[i]) {
				t.Fatalf("seed %d: row %d of %s\nis   %v\nwant %v", seed, i, root.avro, rows[i], wants[i])
			}
		}
	}
}

// TestRandomObjects infers columns from random records: each record is in a file with all its values, or refused.
func TestRandomObjects(t *testing.T) {
	refused := 0
	for seed := range uint64(40) {
		r := &random{Rand: rand.New(rand.NewPCG(seed, 1))}
		table := parquet.NewTable(parquet.Columns{Position: true})
		var kept []map[string]any
		var all []map[string]any
		var file *parquet.File
		end := func() {
			content, err := file.Encode()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			_, rows := read(t, content)
			all, file = append(all, rows...), nil
		}
		for range 60 {
			payload := map[string]any{}
			for range r.IntN(5) {
				payload[fmt.Sprint(r.IntN(8))] = r.value(3)
			}
			rec := create(payload)
			for {
				if file == nil {
					file = table.NewFile(large)
				}
				added, err := file.Add(&rec, none)
				if err != nil {
					refused++
				} else if added {
					kept = append(kept, payload)
				} else {
					end()
					continue
				}
				break
			}
		}
		end()
		if len(all) != len(kept) {
			t.Fatalf("seed %d: read %d rows of %d", seed, len(all), len(kept))
		}
		for i := range kept {
			delete(all[i], "conduit_position")
			if !holds(all[i], kept[i]) {
				t.Fatalf("seed %d: row %d is %v\nwant %v", seed, i, all[i], kept[i])
			}
		}
	}
	if refused == 0 {
		t.Error("no record was refused")
	}
}

// value returns a random value, of few kinds, so that columns often change.
func (r *random) value(depth int) any {
	switch r.IntN(10) {
	case 0:
		return nil
	case 1:
		return r.IntN(3) == 0
	case 2:
		return r.IntN(1<<60) + 1
	case 3:
		return r.Float64()
	case 4:
		return json.Number("123456789012345678901234567890")
	case 5, 6:
		items := []any{}
		for range r.IntN(3) * min(depth, 1) {
			items = append(items, r.value(depth-1))
		}
		return items
	case 7, 8:
		m := map[string]any{}
		for range r.IntN(3) * min(depth, 1) {
			m[fmt.Sprint(r.IntN(3))] = r.value(depth - 1)
		}
		return m
	}
	return time.Unix(0, r.Int64N(1<<60)/1000*int64(999+r.IntN(2))).UTC()
}

// holds reports whether a file has a value: as it is, as another number of the same value, or as JSON. A field that the
// value lacks is null.
func holds(got, want any) bool {
	if text, ok := got.(string); ok {
		b, err := record.AppendValue(nil, want)
		return err == nil && string(b) == text
	}
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		for name, v := range m {
			ok = ok && holds(v, want[name])
		}
		for name := range want {
			_, has := m[name]
			ok = ok && has
		}
		return ok
	case []any:
		list, ok := got.([]any)
		ok = ok && len(list) == len(want)
		for i := range list {
			ok = ok && holds(list[i], want[i])
		}
		return ok
	case int:
		if f, ok := got.(float64); ok {
			return f < 1<<63 && int(f) == want
		}
		return got == int64(want)
	case float64:
		if n, ok := got.(int64); ok {
			return float64(n) == want
		}
	case json.Number:
		return false // is JSON
	case time.Time:
		at, ok := got.(time.Time)
		return ok && at.Equal(want)
	}
	return reflect.DeepEqual(got, want)
}
