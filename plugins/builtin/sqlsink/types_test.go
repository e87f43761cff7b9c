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
	decimal := schema.FieldType{Avro: "bytes", Logical: "decimal", Precision: 10, Scale: 2}
	micros := schema.FieldType{Avro: "long", Logical: "timestamp-micros"}
	for i, c := range []struct {
		declared []schema.FieldType
		value    any
		want     sqlsink.Type
	}{
		{[]schema.FieldType{{Avro: "int"}}, int64(1), sqlsink.Type{Name: sqlsink.Int}},
		{[]schema.FieldType{{Avro: "long"}}, int32(1), sqlsink.Type{Name: sqlsink.Long}},
		{[]schema.FieldType{{Avro: "long"}}, 1.0, sqlsink.Type{Name: sqlsink.Long}},
		{[]schema.FieldType{{Avro: "long"}}, "text", sqlsink.Type{Name: sqlsink.Text}},
		{[]schema.FieldType{{Avro: "boolean"}}, nil, sqlsink.Type{Name: sqlsink.Bool}},
		{[]schema.FieldType{{Avro: "double"}}, 1.0, sqlsink.Type{Name: sqlsink.Float}},
		{[]schema.FieldType{decimal}, "1.50", sqlsink.Type{Name: sqlsink.Decimal, Precision: 10, Scale: 2}},
		{[]schema.FieldType{decimal, {Avro: "bytes", Logical: "decimal", Precision: 12, Scale: 6}}, "1",
			sqlsink.Type{Name: sqlsink.Decimal, Precision: 14, Scale: 6}},
		{[]schema.FieldType{{Avro: "string", Logical: "numeric"}}, "1.50", sqlsink.Type{Name: sqlsink.Decimal}},
		{[]schema.FieldType{micros, {Avro: "string"}}, "infinity", sqlsink.Type{Name: sqlsink.Time}},
		{[]schema.FieldType{{Avro: "int", Logical: "date"}}, time.Now(), sqlsink.Type{Name: sqlsink.Time}},
		{[]schema.FieldType{{Avro: "int", Logical: "time-millis"}}, time.Second, sqlsink.Type{Name: sqlsink.Duration}},
		{[]schema.FieldType{{Avro: "string", Logical: "json"}}, "null", sqlsink.Type{Name: sqlsink.JSON}},
		{[]schema.FieldType{{Avro: "string", Logical: "json"}}, json.Number("12345678901234567890.12"),
			sqlsink.Type{Name: sqlsink.Decimal}},
		{[]schema.FieldType{{Avro: "fixed", Logical: "uuid"}}, "u", sqlsink.Type{Name: sqlsink.Text}},
		{[]schema.FieldType{{Avro: "enum"}}, "a", sqlsink.Type{Name: sqlsink.Text}},
		{[]schema.FieldType{{Avro: "fixed"}}, []byte("a"), sqlsink.Type{Name: sqlsink.Bytes}},
		{[]schema.FieldType{{Avro: "array"}}, []any{}, sqlsink.Type{Name: sqlsink.JSON}},
		{[]schema.FieldType{{Avro: "long"}, {Avro: "string"}}, 1, sqlsink.Type{Name: sqlsink.Any}},
		{nil, "a", sqlsink.Type{Name: sqlsink.Text}},
	} {
		if got := sqlsink.DeclaredType(c.declared).Observed(sqlsink.TypeOf(c.value)); got != c.want {
			t.Errorf("%d: %v with %v: got %v, want %v", i, c.declared, c.value, got, c.want)
		}
	}
}
