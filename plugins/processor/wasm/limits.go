package wasm

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Limits of the data that the host takes from a guest at once. The memory of a guest may be of any size.
const (
	maxReply      = 64 << 20 // bytes of an answer to a command, and of a request to a service
	maxAnswer     = 1 << 20  // bytes of an answer without records
	maxMessage    = 4 << 10  // bytes of an error to keep
	maxParameters = 10_000   // number of parameters that a processor may specify
)

// answerLimits bounds the records in one answer.
var answerLimits = record.Limits{Metadata: record.MaxMetadata, Memory: 64 << 20}

// tooLarge returns an error of the guest, so that the faulty record is found and refused.
func tooLarge(n, most int) error {
	return &guestError{message: fmt.Sprintf("the processor answers with %d bytes, more than %d", n, most)}
}

// reader reads the records of an answer.
type reader struct{ left record.Limits }

// record reads a record, and refuses one that takes more memory than is left.
func (r *reader) record(b []byte) (record.Record, error) {
	memory, err := record.Weigh(b, r.left)
	if err != nil {
		return record.Record{}, &guestError{message: fmt.Sprintf("cannot read the answer of the processor: %v", err)}
	}
	r.left.Memory -= memory
	return record.ParseWire(b)
}
