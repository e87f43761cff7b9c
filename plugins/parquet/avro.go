package parquet

import (
	"slices"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// maxPrecision is the number of digits of a decimal of 128 bits.
const maxPrecision = 38

// columnOf returns the column of an Avro type. outer are the types that contain it.
func columnOf(d *schema.Description, outer ...*schema.Description) *column {
	if slices.Contains(outer, d) || len(outer) > maxDepth {
		return &column{kind: kindJSON} // a recursive type needs columns without end
	}
	outer = append(slices.Clip(outer), d)
	switch d.Type {
	case "boolean":
		return &column{kind: kindBoolean}
	case "int", "long":
		return integerOf(d.Logical)
	case "float", "double":
		return &column{kind: kindFloat}
	case "string", "enum":
		switch {
		case d.Logical == "json":
			return &column{kind: kindJSON}
		case d.Logical == "numeric" && isDecimal(d):
			return &column{kind: kindDecimal, precision: d.Precision, scale: d.Scale}
		}
		return &column{kind: kindText}
	case "bytes", "fixed":
		return bytesColumn(d)
	case "array":
		return &column{kind: kindList, items: columnOf(d.Items, outer...)}
	case "map":
		return &column{kind: kindMap, items: columnOf(d.Items, outer...)}
	case "record", "error":
		var fields []field
		for _, f := range d.Fields {
			fields = append(fields, field{f.Name, columnOf(f.Type, outer...)})
		}
		return structOf(fields)
	case "union":
		return unionOf(d.Branches, outer)
	}
	return unknown
}

func integerOf(logical string) *column {
	switch logical {
	case "date":
		return &column{kind: kindDate}
	case "time-millis", "time-micros":
		return &column{kind: kindTime}
	case "timestamp-millis", "timestamp-micros":
		return &column{kind: kindTimestamp}
	case "timestamp-nanos":
		return &column{kind: kindTimestamp, nanos: true}
	case "local-timestamp-millis", "local-timestamp-micros":
		return &column{kind: kindDatetime}
	case "local-timestamp-nanos":
		return &column{kind: kindDatetime, nanos: true}
	}
	return &column{kind: kindInteger}
}

// isDecimal reports whether a decimal column has room for the numbers of the type.
func isDecimal(d *schema.Description) bool {
	return d.Precision > 0 && d.Precision <= maxPrecision && d.Scale <= d.Precision
}

func bytesColumn(d *schema.Description) *column {
	switch {
	case d.Logical == "decimal" && isDecimal(d):
		return &column{kind: kindDecimal, precision: d.Precision, scale: d.Scale}
	case d.Logical == "decimal":
		return &column{kind: kindDigits}
	case d.Logical == "uuid":
		return &column{kind: kindUUID}
	case d.Logical == "duration": // its values are text in ISO 8601
		return &column{kind: kindText}
	}
	return &column{kind: kindBytes}
}

// unionOf returns the column of a union: of the first type that is not null, or DOUBLE for integers and floats.
func unionOf(branches, outer []*schema.Description) *column {
	first := unknown
	for _, d := range branches {
		c := columnOf(d, outer...)
		switch {
		case first.kind == kindUnknown, first.kind == kindInteger && c.kind == kindFloat:
			first = c
		}
	}
	return first
}
