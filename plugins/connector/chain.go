package connector

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Chain is a running sequence of processors. The records of a batch pass through them one after the other. Its methods
// are called one at a time.
type Chain interface {
	// Process runs the processors over the records and returns the decision about each record. The records belong to
	// the chain, which changes them in place, until they are settled. The token identifies this batch: it is comparable
	// and differs from the tokens of all outstanding batches. Process without records, and with a nil token, lets
	// processors emit whose deadline has come.
	//
	// An error means that a processor is broken: the pipeline fails, and all unsettled records are read again. Only
	// Teardown follows.
	Process(ctx context.Context, token any, records []record.Record) (Outcome, error)
	// Deadline returns the time at which Process is called if there are no records, or the zero time for never. Only
	// Process changes it.
	Deadline() time.Time
	// Observes reports whether a processor observes commits. Then Committed is called once for every batch whose
	// records are all settled and covered by a saved position.
	Observes() bool
	// Committed notifies the chain that all records of the batches with these tokens are settled, that the destinations
	// and the dead-letter queue hold them durably, and that the positions covering them are saved. An error has the
	// same meaning as an error of Process.
	Committed(ctx context.Context, tokens []any) error
	// Holding returns the number of records that the processors hold. These are read again if the chain ends before it
	// releases them.
	Holding() int
	// Teardown ends the processors. It is the last call and always returns.
	Teardown(ctx context.Context) error
}

// ChainSuccessor is a Chain that can take over the state and the held records of the processors of a former chain.
type ChainSuccessor interface {
	Chain
	// CanSucceed reports whether Succeed can be called without losing state or records of former. It changes nothing.
	CanSucceed(former Chain) bool
	// Succeed takes over between two batches. After that only Teardown of former is called; it leaves the transferred
	// state alone.
	Succeed(former Chain)
}

// ChainReleaser is a Chain with processors that can release held records early.
type ChainReleaser interface {
	Chain
	// Releasable reports whether Release would release records. Process and Release change it.
	Releasable() bool
	// Release makes the processors release their held records before the deadline. The outcome is like the outcome of
	// Process without records.
	Release(ctx context.Context) (Outcome, error)
}

// ChainSplitter is a Chain that returns the output for a batch in parts when it takes much memory.
type ChainSplitter interface {
	Chain
	// Unfinished reports whether parts remain. In this case the outcome of Process or Release is the first part, and
	// names the records of the others as held. Process without records returns the next part. It is called until no
	// part remains, before Process with other records.
	Unfinished() bool
}

// Outcome is the result of a Chain for a batch. Records of the batch are identified by index.
//
// A record is settled when all its occurrences in Origins and Held are. An occurrence in Origins is settled when all
// destinations have the record, an occurrence in Held when all records of the Emission that names it are settled. A
// record without occurrences that was not refused was filtered, and is settled at once.
//
// When a destination refuses a record whose origin occurs more than once, in Origins and Held together, the record that
// was given to Process goes to the dead-letter queue: the chain left it there in its state before it was split.
type Outcome struct {
	Records []record.Record // records that continue, in order; the slice given to Process if Origins is nil
	Origins []int32         // Records[i] was made of record Origins[i]; nil: of record i
	Held    []int32         // records that a processor holds, once for each piece
	// Keeper maps the index of a record to the qualified id of the processor that split or held it. The slice given to
	// Process has the input of that processor at this index.
	Keeper  map[int32]string
	Refused []Refusal      // each record at most once
	Emitted []sdk.Emission // made of held records of this or earlier batches; they follow Records
}

// Refusal is a record that a processor refused.
type Refusal struct {
	Index     int32         // index of the record in the batch; -1: an emitted record
	Settles   []sdk.Held    // for an emitted record: the held records that go to the dead-letter queue instead
	Record    record.Record // record for the dead-letter queue, in its state before a split
	Processor string        // qualified id
	Entry     string        // qualified id of the processor to replay Record from: Processor, or the splitter
	Err       error
}
