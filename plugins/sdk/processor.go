package sdk

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// ProcessorPlugin describes a processor and makes its instances.
type ProcessorPlugin struct {
	Name        string // how pipelines refer to it: letters, digits, '-', '_' and '.'
	Summary     string // one line
	Description string
	Version     string // semantic version with a leading v
	Author      string

	// New makes an instance. A pipeline that asks for several workers gets as many
	// instances, so none is ever called concurrently.
	New func() Processor

	// Stateful says that what becomes of a record depends on records before it. There is
	// one instance then; a declaration with more than one worker is refused.
	Stateful bool
	// Defaults are the defaults of sdk.* parameters that differ from the usual ones, by name.
	Defaults map[string]string
}

// Processor changes records, drops them, refuses them, makes several of one, or holds them
// back, on their way from a source to a destination. The methods are called one at a time,
// in the order Configure, Open, Process again and again, Teardown. For its specification
// only Parameters is called, for a check of a declaration Parameters and Configure.
//
// Embed ProcessorBase to need only the methods that matter.
type Processor interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a plugin.
	Parameters() Parameters
	// Configure checks and keeps the settings, and compiles what can be compiled. It
	// opens nothing outside the process except files that a setting names. Settings have
	// been trimmed and defaulted, and checked against Parameters. A SettingError says
	// which setting is wrong.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for processing.
	Open(ctx context.Context) error
	// Process decides what becomes of every record of b, by changing it in place and by
	// calling the methods of b. A record about which nothing is said goes on. The records
	// may be changed until Process returns; b is not used after that.
	//
	// An error means that the processor is broken, and is no record's fault: the pipeline
	// fails and is started again after a pause, and all records of b are read again. A
	// record that cannot be processed is refused instead. ctx ends when the pipeline is
	// stopped by force, and when Process has been at one record for longer than
	// processors.timeout; Process returns soon then, with ctx.Err(), and is abandoned if it
	// has not returned after a second. See InTime for how to refuse the record instead.
	Process(ctx context.Context, b *ProcessBatch) error
	// Teardown releases everything. It is the last call, also after a failed Configure
	// or Open.
	Teardown(ctx context.Context) error
}

// ProcessorBase has the methods of Processor that many processors have no use for.
type ProcessorBase struct{}

// Open does nothing.
func (ProcessorBase) Open(context.Context) error { return nil }

// Teardown does nothing.
func (ProcessorBase) Teardown(context.Context) error { return nil }

// SchemaUser is a Processor that does not read and change all of a record.
type SchemaUser interface {
	// SchemaParts returns the parts that Process reads or changes as structured data. The
	// host decodes only those that are encoded with the schema that the record names; the
	// others pass as they are. It is called after Configure. A Processor that is no
	// SchemaUser gets all parts decoded.
	SchemaParts() schema.Parts
}

// TimedProcessor is a Processor that emits by time.
type TimedProcessor interface {
	// Deadline returns when Process is to be called although there are no records, with
	// an empty batch; the zero time when it need not be. It is asked after Open and after
	// every Process.
	Deadline() time.Time
}

// Releaser is a Processor that holds records for a time or up to a number, and can release them early.
type Releaser interface {
	// Release releases all held records by emissions of b, which has no records. It is called when sources cannot read
	// more before held records are settled. An error has the same meaning as an error of Process.
	Release(ctx context.Context, b *ProcessBatch) error
}

// Successor is a Processor that can take over what another instance of its plugin keeps and
// holds, so that a declaration can change while its pipeline runs. Former is of the same
// type, ran under the same id and is in no call.
type Successor interface {
	// CanSucceed reports whether Succeed can be called: what former holds is of use with
	// the settings that were configured. It changes nothing.
	CanSucceed(former Processor) bool
	// Succeed takes over, in the place of Open. No method of former is called any more.
	Succeed(former Processor)
}

// CommitObserver is a Processor that keeps state from records across runs and decides by it about later records: for
// example which keys it has seen. A record may be read again until the position that covers it is saved, in this run
// or, after a crash, in the next one. So state learned from a record may be made durable only then: earlier, it would
// mark the record as delivered while the record could still be lost.
//
// Durable state is therefore never ahead of the position. It may be behind: after a crash the processor may not know
// the records that were committed last.
type CommitObserver interface {
	// Committed is called with the Tokens of batches whose records are settled and durable in the destinations and the
	// dead-letter queue, once the positions that cover them are saved. It is called once for each batch, soon after a
	// position is saved or as the pipeline ends, and never while another method runs. It is not called for batches that
	// are not committed when the pipeline ends: those are read again.
	//
	// An error fails the pipeline, as one of Process does.
	Committed(ctx context.Context, tokens []any) error
}
