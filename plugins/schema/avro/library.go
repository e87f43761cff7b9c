// Package avro parses Avro schemas.
package avro

import "github.com/twmb/avro"

// Node is a type as written in a schema. The Type of a reference is the target's name.
type Node = avro.SchemaNode

// Field is a field of a record.
type Field = avro.SchemaField

// Parse parses an Avro schema in JSON.
func Parse(text string) (*Node, error) {
	s, err := avro.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}
