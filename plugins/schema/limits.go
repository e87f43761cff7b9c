package schema

import (
	"errors"
	"fmt"
)

// Limits of encoding and decoding data with a schema. Schemas come from connectors and from external registries: a
// number in a schema must not determine how much memory or time a record takes.
const (
	maxText      = 1 << 20  // bytes of a schema
	maxDecimal   = 4096     // digits of a decimal, its scale and its text
	maxDefaults  = 64 << 10 // encoded bytes of a record that come from defaults
	maxEncoding  = 1 << 22  // values visited to encode a record: unions try their branches
	failedBranch = 16       // cost of trying a branch that does not match, in values
	maxDecoded   = 64 << 20 // bytes of memory of a decoded record

	// freeValues and valuesPerByte bound the values of a decoded record: nulls and empty records take no bytes.
	freeValues    = 4096
	valuesPerByte = 4
)

// decimalSize is the number of bytes of maxDecimal digits.
const decimalSize = 1702

// Approximate memory of decoded values in addition to their text, in bytes.
const (
	valueMemory  = 24
	objectMemory = 48
	memberMemory = 40 // plus the memory of the value
)

var (
	errTooLong    = fmt.Errorf("must not be a decimal with more than %d digits", maxDecimal)
	errDefaults   = fmt.Errorf("the defaults of the schema exceed %d bytes", maxDefaults)
	errWork       = errors.New("the unions of the schema have too many combinations")
	errTooMany    = errors.New("the data announces more values than it can contain")
	errTooGreat   = errors.New("the value needs too much memory")
	errSchemaSize = fmt.Errorf("the schema has more than %d bytes", maxText)
)

// checkScale refuses decimals that take too long to compute with.
func checkScale(t *avroType) error {
	if t.logical == logicalDecimal && t.scale > maxDecimal {
		return fmt.Errorf("the scale %d of a decimal is greater than %d", t.scale, maxDecimal)
	}
	return nil
}
