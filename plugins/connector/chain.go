package connector

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Chain is a running sequence of processors, which the records of a batch pass one after
// the other. Its methods are called one at a time.
type Chain interface {
	// Process runs the processors over the records and says what becomes of each. The
	// records belong to the chain, which changes them in place, until they are settled.
	// The token stands for this batch: it is comparable and of no other outstanding batch. Process
	// without records, and with a nil token, lets the processors emit whose time has come.
	//
	// An error means that a processor is broken: the pipeline fails, and all that is not
	// settled is read again. Only Teardown follows.
	Process(ctx context.Context, token any, records []record.Record) (Outcome, error)
	// Deadline returns when Process is to be called although there are no records, the
	// zero time when it need not be. It changes only with Process.
	Deadline() time.Time
	// Observes reports whether a processor observes commits: then Committed is called once for every batch whose
	// records are all settled and covered by a saved position.
	Observes() bool
	// Committed notifies the chain that all records of the batches with these tokens are settled, that the destinations
	// and the dead-letter queue hold them durably, and that the positions covering them are saved. An error has the
	// same meaning as an error of Process.
	Committed(ctx context.Context, tokens []any) error
	// Holding returns how many records the processors hold. Those are read again when the
	// chain ends before it let them go.
	Holding() int
	// Teardown ends the processors. It is the last call and always returns.
	Teardown(ctx context.Context) error
}

// ChainSuccessor is a Chain that can take over what the processors of a former one keep and
// hold.
type ChainSuccessor interface {
	Chain
	// CanSucceed reports whether Succeed can be called: nothing that former holds would be
	// lost. It changes nothing.
	CanSucceed(former Chain) bool
	// Succeed takes over between two batches. Of former only Teardown is called any more,
	// which leaves alone what was taken over.
	Succeed(former Chain)
}

// ChainReleaser is a Chain with processors that can release held records early.
type ChainReleaser interface {
	Chain
	// Releasable reports whether Release would let records go. It changes with Process and Release.
	Releasable() bool
	// Release makes the processors release their held records before the deadline. The outcome is like the outcome of
	// Process without records.
	Release(ctx context.Context) (Outcome, error)
}

// ChainSplitter is a Chain that passes a batch on in parts when its output takes much memory.
type ChainSplitter interface {
	Chain
	// Unfinished reports whether there are parts left. The outcome of Process or Release is the first part then, and
	// names the records of the others as held. Process without records returns the next part. It is called until none
	// is left, before Process with other records.
	Unfinished() bool
}

// Outcome is what a Chain made of a batch. A record of the batch is named by its index.
//
// A record is settled when every occurrence of it in Origins and in Held is: one in Origins
// when all destinations have the record, one in Held when all records of the Emission that
// names it are settled. A record that occurs nowhere, and was not refused, was filtered
// and is settled at once.
//
// When a destination refuses a record of which the origin occurs more than once, in Origins
// and Held together, the record that was given to Process goes to the dead-letter queue: the
// chain left it there as it was before it was split.
type Outcome struct {
	Records []record.Record // what goes on, in order; the slice given to Process when Origins is nil
	Origins []int32         // Records[i] was made of record Origins[i]; nil: of record i
	Held    []int32         // records that a processor holds, once for each piece
	// Keeper is the qualified id of the processor that split or held a record, by the index of
	// the record. What was given to Process has at this index the record that the processor got.
	Keeper  map[int32]string
	Refused []Refusal      // each record at most once
	Emitted []sdk.Emission // made of held records of this batch or of earlier ones; they go on behind Records
}

// Refusal is a record that a processor refused.
type Refusal struct {
	Index     int32         // of the record of the batch; -1 when it was emitted
	Settles   []sdk.Held    // when it was emitted: the held records that go to the dead-letter queue for it
	Record    record.Record // as it goes to the dead-letter queue, before it was split if it was
	Processor string        // qualified id
	Entry     string        // qualified id of the processor that gets Record next: Processor, or what split it
	Err       error
}
