//go:build minimal

// Package avro parses Avro schemas.
package avro

// Node is a type as written in a schema. The Type of a reference is the target's name.
type Node struct {
	Type             string
	LogicalType      string
	Name, Namespace  string   // of a record, an enum or a fixed
	Fields           []Field  // of a record
	Branches         []Node   // of a union
	Items, Values    *Node    // of an array, of a map
	Symbols          []string // of an enum
	Size             int      // of a fixed
	Precision, Scale int      // of a decimal
}

// Field is a field of a record.
type Field struct {
	Name       string
	Type       Node
	Default    any
	HasDefault bool
}

// Parse parses an Avro schema in JSON that conforms to the specification.
func Parse(text string) (*Node, error) { return ParseStrict(text) }
