//go:build !minimal

// Package avro parses Avro schemas.
package avro

import "github.com/twmb/avro"

// Node is a type as a schema writes it. A reference has the name of its target as Type.
type Node = avro.SchemaNode

// Field is one of a record.
type Field = avro.SchemaField

// Parse parses an Avro schema in JSON.
func Parse(text string) (*Node, error) {
	s, err := avro.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}
