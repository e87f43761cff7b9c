package sqlsink_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// TestTypesOfValues checks the type of a column with all of the values, in either order.
func TestTypesOfValues(t *testing.T) {
	at := time.Now()
	for i, c := range []struct {
		values []any
		want   sqlsink.Type
	}{
		{[]any{nil, nil}, sqlsink.Type{}},
		{[]any{nil, true, false}, sqlsink.Type{Name: sqlsink.Bool}},
		{[]any{int32(1), int8(2), uint16(3)}, sqlsink.Type{Name: sqlsink.Int}},
		{[]any{int32(1), 2}, sqlsink.Type{Name: sqlsink.Long}},
		{[]any{int64(-1), uint64(1 << 63)}, sqlsink.Type{Name: sqlsink.Decimal, Precision: 20}},
		{[]any{uint(1), uint64(1 << 63)}, sqlsink.Type{Name: sqlsink.Unsigned}},
		{[]any{1.0, float32(2)}, sqlsink.Type{Name: sqlsink.Whole}},
		{[]any{1.0, 1.5}, sqlsink.Type{Name: sqlsink.Float}},
		{[]any{int64(1), 1.5}, sqlsink.Type{Name: sqlsink.Float}},
		{[]any{1e300}, sqlsink.Type{Name: sqlsink.Float}},
		{[]any{json.Number("1"), json.Number("-5")}, sqlsink.Type{Name: sqlsink.Long}},
		{[]any{json.Number("1"), json.Number("1.5")}, sqlsink.Type{Name: sqlsink.Number}},
		{[]any{json.Number("1.5"), json.Number("12345678901234567890.12")}, sqlsink.Type{Name: sqlsink.Decimal}},
		{[]any{"a", nil}, sqlsink.Type{Name: sqlsink.Text}},
		{[]any{at, "infinity"}, sqlsink.Type{Name: sqlsink.Time}},
		{[]any{time.Second}, sqlsink.Type{Name: sqlsink.Duration}},
		{[]any{map[string]any{}, []any{1}}, sqlsink.Type{Name: sqlsink.JSON}},
		{[]any{"a", 1}, sqlsink.Type{Name: sqlsink.Any}},
		{[]any{true, 1}, sqlsink.Type{Name: sqlsink.Any}},
		{[]any{"a", []byte("a")}, sqlsink.Type{Name: sqlsink.Any}},
		{[]any{[]any{}, "a"}, sqlsink.Type{Name: sqlsink.Any}},
	} {
		var forth, back sqlsink.Type
		for i := range c.values {
			forth = forth.With(sqlsink.TypeOf(c.values[i]))
			back = back.With(sqlsink.TypeOf(c.values[len(c.values)-1-i]))
		}
		if forth != c.want || back != c.want {
			t.Errorf("%d: %v: got %v and %v, want %v", i, c.values, forth, back, c.want)
		}
	}
}

// TestTypesOfSchemas checks the type of a column that a schema declares, for values of a type.
func TestTypesOfSchemas(t *testing.T) {
	decimal := &schema.Description{Type: "bytes", Logical: "decimal", Precision: 10, Scale: 2}
	micros := &schema.Description{Type: "long", Logical: "timestamp-micros"}
	for i, c := range []struct {
		declared []*schema.Description
		value    any
		want     sqlsink.Type
	}{
		{[]*schema.Description{{Type: "int"}}, int64(1), sqlsink.Type{Name: sqlsink.Int}},
		{[]*schema.Description{{Type: "long"}}, int32(1), sqlsink.Type{Name: sqlsink.Long}},
		{[]*schema.Description{{Type: "long"}}, 1.0, sqlsink.Type{Name: sqlsink.Long}},
		{[]*schema.Description{{Type: "long"}}, "text", sqlsink.Type{Name: sqlsink.Text}},
		{[]*schema.Description{{Type: "boolean"}}, nil, sqlsink.Type{Name: sqlsink.Bool}},
		{[]*schema.Description{{Type: "double"}}, 1.0, sqlsink.Type{Name: sqlsink.Float}},
		{[]*schema.Description{decimal}, "1.50", sqlsink.Type{Name: sqlsink.Decimal, Precision: 10, Scale: 2}},
		{[]*schema.Description{decimal, {Type: "bytes", Logical: "decimal", Precision: 12, Scale: 6}}, "1",
			sqlsink.Type{Name: sqlsink.Decimal, Precision: 14, Scale: 6}},
		{[]*schema.Description{{Type: "string", Logical: "numeric"}}, "1.50", sqlsink.Type{Name: sqlsink.Decimal}},
		{[]*schema.Description{micros, {Type: "string"}}, "infinity", sqlsink.Type{Name: sqlsink.Time}},
		{[]*schema.Description{{Type: "int", Logical: "date"}}, time.Now(), sqlsink.Type{Name: sqlsink.Time}},
		{[]*schema.Description{{Type: "int", Logical: "time-millis"}}, time.Second, sqlsink.Type{Name: sqlsink.Duration}},
		{[]*schema.Description{{Type: "string", Logical: "json"}}, "null", sqlsink.Type{Name: sqlsink.JSON}},
		{[]*schema.Description{{Type: "string", Logical: "json"}}, json.Number("12345678901234567890.12"),
			sqlsink.Type{Name: sqlsink.Decimal}},
		{[]*schema.Description{{Type: "fixed", Logical: "uuid"}}, "u", sqlsink.Type{Name: sqlsink.Text}},
		{[]*schema.Description{{Type: "enum"}}, "a", sqlsink.Type{Name: sqlsink.Text}},
		{[]*schema.Description{{Type: "fixed"}}, []byte("a"), sqlsink.Type{Name: sqlsink.Bytes}},
		{[]*schema.Description{{Type: "array"}}, []any{}, sqlsink.Type{Name: sqlsink.JSON}},
		{[]*schema.Description{{Type: "long"}, {Type: "string"}}, 1, sqlsink.Type{Name: sqlsink.Any}},
		{nil, "a", sqlsink.Type{Name: sqlsink.Text}},
	} {
		union := &schema.Description{Type: "union", Branches: append(c.declared, &schema.Description{Type: "null"})}
		if got := sqlsink.DeclaredType(union).Observed(sqlsink.TypeOf(c.value)); got != c.want {
			t.Errorf("%d: %v with %v: got %v, want %v", i, c.declared, c.value, got, c.want)
		}
	}
}
