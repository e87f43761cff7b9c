package sqlsink

import (
	"encoding/json"
	"math"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// Type is the type of the values of a new column.
type Type struct {
	Name TypeName
	// Precision is the maximum number of digits of a Decimal, and Scale the number of digits after the point. Precision
	// 0: there is no limit.
	Precision, Scale int
}

// TypeName names a type.
type TypeName uint8

// Types of values.
const (
	Unknown  TypeName = iota // only NULL
	Bool                     // bool
	Int                      // integers of 32 bits
	Long                     // integers of 64 bits
	Unsigned                 // uint64
	Whole                    // float32 and float64 without a fraction, as decoders of JSON return integers
	Float                    // float32 and float64
	Number                   // JSON numbers, with a fraction or an exponent
	Decimal                  // numbers that a float would change, and texts of numbers
	Text                     // string
	Bytes                    // []byte
	Time                     // time.Time
	Duration                 // time.Duration
	JSON                     // objects and lists
	Any                      // several types
)

// typeOf returns the type of a value in a record.
func typeOf(v any) Type {
	switch v := v.(type) {
	case nil:
		return Type{}
	case bool:
		return Type{Name: Bool}
	case int8, int16, int32, uint8, uint16:
		return Type{Name: Int}
	case int, int64, uint32:
		return Type{Name: Long}
	case uint:
		return typeOf(uint64(v))
	case uint64:
		return Type{Name: Unsigned}
	case float32:
		return typeOf(float64(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return Type{Name: Whole}
		}
		return Type{Name: Float}
	case json.Number:
		switch number(v).(type) {
		case int64:
			return Type{Name: Long}
		case float64:
			return Type{Name: Number}
		}
		return Type{Name: Decimal}
	case string:
		return Type{Name: Text}
	case []byte:
		return Type{Name: Bytes}
	case time.Time:
		return Type{Name: Time}
	case time.Duration:
		return Type{Name: Duration}
	}
	return Type{Name: JSON}
}

// declaredType returns the type of the values that a schema describes: of all types of a union, without null.
func declaredType(d *schema.Description) (t Type) {
	for _, branch := range d.Branches {
		t = t.with(declaredType(branch))
	}
	if d.Type == "union" || d.Type == "null" {
		return t
	}
	switch d.Logical {
	case "decimal", "numeric":
		return Type{Decimal, d.Precision, d.Scale}
	case "time-millis", "time-micros":
		return Type{Name: Duration}
	case "uuid", "duration":
		return Type{Name: Text}
	case "json":
		return Type{Name: JSON}
	case "":
	default:
		return Type{Name: Time}
	}
	switch d.Type {
	case "boolean":
		return Type{Name: Bool}
	case "int":
		return Type{Name: Int}
	case "long":
		return Type{Name: Long}
	case "float", "double":
		return Type{Name: Float}
	case "string", "enum":
		return Type{Name: Text}
	case "bytes", "fixed":
		return Type{Name: Bytes}
	}
	return Type{Name: JSON}
}

// with returns the type of the values of t and u.
func (t Type) with(u Type) Type {
	if t.Name > u.Name {
		t, u = u, t
	}
	numbers := t.Name > Bool && u.Name <= Decimal
	switch {
	case t == u || t.Name == Unknown:
		return u
	case t.Name == Decimal && u.Name == Decimal:
		if t.Precision == 0 || u.Precision == 0 {
			return Type{Name: Decimal}
		}
		scale := max(t.Scale, u.Scale)
		return Type{Decimal, max(t.Precision-t.Scale, u.Precision-u.Scale) + scale, scale}
	case t.Name == Text && u.Name == Time: // a time that time.Time cannot represent, such as infinity, is text
		return u
	case !numbers:
		return Type{Name: Any}
	case u.Name == Unsigned:
		return Type{Decimal, len("18446744073709551615"), 0}
	case u.Name == Decimal:
		return Type{Name: Decimal}
	}
	return u
}

// column returns the type of the column for values of type t. Whole numbers are integers in a key, because a key is
// hardly ever a fraction.
func (t Type) column(isKey bool) Type {
	switch {
	case t.Name != Whole:
		return t
	case isKey:
		return Type{Name: Long}
	}
	return Type{Name: Float}
}

// observed returns the type of a column whose schema declares t, and whose values have the type u. A processor may have
// changed the values.
func (t Type) observed(u Type) Type {
	switch {
	case t.Name == Unknown:
		return u
	case u.Name == Unknown, t.Name == Any, t.Name == JSON && u.Name != Decimal,
		u.Name == Whole && t.Name > Bool && t.Name <= Decimal:
		return t
	case t.Name == Int && u.Name == Long, t.Name == Decimal && u.Name <= Text, t.with(u) == t:
		return t
	}
	return u
}
