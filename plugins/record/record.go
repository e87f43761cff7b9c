// Package record defines the unit of data that moves through a pipeline.
//
// A Record is a plain value in the OpenCDC form: the kind of change (Operation), the changed entity (Key), its state
// before and after (Before, After), the place in its source (Position), and further attributes (Metadata). A Batch is a
// sequence of records from one source, in order. The package depends on nothing but the standard library.
package record

import (
	"bytes"
	"fmt"
	"math/bits"
)

// Position is a record's place in its source. Only the source that made it can interpret it. Elsewhere it is an opaque
// sequence of bytes, unique within the source and never empty.
type Position []byte

// Identity returns the part of p that is the same each time its record is read. A destination uses it to recognize a
// record that it already has. A source whose position needs further data to resume writes it as JSON, with the further
// data in a last member "@resume".
func (p Position) Identity() []byte {
	identity, _, _ := bytes.Cut(p, []byte(`,"@resume":`))
	return identity
}

// MaxPosition is the maximum length of a position in bytes. Positions are kept for every outstanding record and written
// to the store.
const MaxPosition = 64 << 10

// Operation is the kind of change to the entity that a record describes. The numbers are defined by the connector
// protocol (opencdc.v1.Operation).
type Operation int32

// The operations. The zero Operation is not valid in a record that leaves a source.
const (
	OperationCreate   Operation = 1
	OperationUpdate   Operation = 2
	OperationDelete   Operation = 3
	OperationSnapshot Operation = 4
)

var operationNames = [...]string{
	OperationCreate:   "create",
	OperationUpdate:   "update",
	OperationDelete:   "delete",
	OperationSnapshot: "snapshot",
}

// String returns the text form used in JSON: create, update, delete, snapshot, or
// Operation(n) for any other number.
func (o Operation) String() string {
	if o > 0 && int(o) < len(operationNames) {
		return operationNames[o]
	}
	return fmt.Sprintf("Operation(%d)", int32(o))
}

// MarshalText returns the text of String.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// ParseOperation parses the output of String.
func ParseOperation(s string) (Operation, error) {
	for o, name := range operationNames {
		if o > 0 && name == s {
			return Operation(o), nil
		}
	}
	var n int32
	if _, err := fmt.Sscanf(s, "Operation(%d)", &n); err == nil && fmt.Sprintf("Operation(%d)", n) == s {
		return Operation(n), nil
	}
	return 0, fmt.Errorf("cannot parse operation %q: want create, update, delete or snapshot", s)
}

// Record is one change read from a source. Records move by ownership: the goroutine that holds a record may change it,
// and passes it on with everything it refers to.
type Record struct {
	Position  Position
	Operation Operation
	Metadata  Metadata
	Key       Data
	Before    Data // state before the change; none for create and snapshot
	After     Data // state after the change; none for delete

	destinations uint64 // set of the destinations that get the record, by their numbers; 0: all
}

// SetDestinations makes the record one for the destinations in set, whose bits are their numbers in the pipeline. It is
// for hosts: a record that is encoded, compared or stored has no destinations.
func (r *Record) SetDestinations(set uint64) { r.destinations = set }

// Shared reports whether several destinations may get the record.
func (r *Record) Shared() bool { return bits.OnesCount64(r.destinations) != 1 }

// GoesTo reports whether the destination with this number, from 0 to 63, gets the record.
func (r *Record) GoesTo(destination int) bool {
	return r.destinations == 0 || r.destinations&(1<<destination) != 0
}

// Equal reports whether r and o hold the same values.
func (r Record) Equal(o Record) bool {
	return bytes.Equal(r.Position, o.Position) && r.Operation == o.Operation &&
		r.Metadata.Equal(o.Metadata) && r.Key.Equal(o.Key) &&
		r.Before.Equal(o.Before) && r.After.Equal(o.After)
}

// Clone returns a deep copy of r.
func (r Record) Clone() Record {
	return Record{
		Position:  bytes.Clone(r.Position),
		Operation: r.Operation,
		Metadata:  r.Metadata.Clone(),
		Key:       r.Key.Clone(),
		Before:    r.Before.Clone(),
		After:     r.After.Clone(),

		destinations: r.destinations,
	}
}

// Size estimates the memory of the parts of r in bytes. The window of a pipeline counts it. It is exact for raw data,
// an estimate for structured data.
func (r *Record) Size() int { return r.Content() + r.overhead() }

// isStructured reports whether a part of r is structured.
func (r *Record) isStructured() bool {
	return r.Key.kind == structured || r.Before.kind == structured || r.After.kind == structured
}

// overhead is the part of Size that is not Content.
func (r *Record) overhead() int {
	n := len(r.Position)
	for _, f := range r.Metadata {
		n += len(f.Key) + len(f.Value)
	}
	return n
}
