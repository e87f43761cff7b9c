package sdk

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// ProcessorPlugin describes a processor and creates its instances.
type ProcessorPlugin struct {
	Name        string // name in pipelines: letters, digits, '-', '_' and '.'
	Summary     string // one line
	Description string
	Version     string // semantic version with a leading v
	Author      string

	// New creates an instance. A pipeline with several workers gets as many instances, so none is ever called
	// concurrently.
	New func() Processor

	// Stateful means that the decision about a record depends on earlier records. Then there is one instance, and a
	// declaration with more than one worker is refused.
	Stateful bool
	// Defaults are the defaults of sdk.* parameters that differ from the standard ones, by name.
	Defaults map[string]string
}

// Processor changes, drops, refuses, splits or holds records on their way from a source to a destination. The methods
// are called one at a time, in the order Configure, Open, repeated Process, Teardown. For a specification only
// Parameters is called; to check a declaration, Parameters and Configure.
//
// Embed ProcessorBase to implement only the necessary methods.
type Processor interface {
	// Parameters describes the settings that Configure understands. They are the same
	// for all instances of a plugin.
	Parameters() Parameters
	// Configure checks and keeps the settings, and compiles expressions and templates. It opens nothing outside the
	// process except files that a setting names. Settings have been trimmed and defaulted, and checked against
	// Parameters. A SettingError names the invalid setting.
	Configure(ctx context.Context, settings map[string]string) error
	// Open prepares for processing.
	Open(ctx context.Context) error
	// Process decides about every record of b, by changing it in place and by calling the methods of b. A record
	// without a decision is kept. The records may be changed until Process returns; b is not used after that.
	//
	// An error means that the processor is broken, and is not the fault of a record: the pipeline fails and restarts
	// after a pause, and all records of b are read again. A record that cannot be processed is refused instead. ctx
	// ends when the pipeline is stopped by force, and when Process has worked on one record for longer than
	// processors.timeout. Then Process must return soon, with ctx.Err(); it is abandoned after one second. InTime
	// refuses the record instead.
	Process(ctx context.Context, b *ProcessBatch) error
	// Teardown releases everything. It is the last call, also after a failed Configure
	// or Open.
	Teardown(ctx context.Context) error
}

// ProcessorBase implements the optional methods of Processor.
type ProcessorBase struct{}

// Open does nothing.
func (ProcessorBase) Open(context.Context) error { return nil }

// Teardown does nothing.
func (ProcessorBase) Teardown(context.Context) error { return nil }

// SchemaUser is a Processor that does not read and change all parts of a record.
type SchemaUser interface {
	// SchemaParts returns the parts that Process reads or changes as structured data. The
	// host decodes only those that are encoded with the schema that the record names; the
	// others pass as they are. It is called after Configure. A Processor that is no
	// SchemaUser gets all parts decoded.
	SchemaParts() schema.Parts
}

// FieldReader is a Processor that passes records without the fields that it is configured to read.
type FieldReader interface {
	// NeverFound returns references to the fields that no record had so far. A name that is spelled wrong stays in it.
	// It may be called at any time after Configure.
	NeverFound() []string
}

// TimedProcessor is a Processor that emits by time.
type TimedProcessor interface {
	// Deadline returns the time at which Process is called with an empty batch if there are no records, or the zero
	// time for never. It is called after Open and after every Process.
	Deadline() time.Time
}

// Releaser is a Processor that holds records for a time or up to a number, and can release them early.
type Releaser interface {
	// Release releases all held records by emissions of b, which has no records. It is called when sources cannot read
	// more before held records are settled. An error has the same meaning as an error of Process.
	Release(ctx context.Context, b *ProcessBatch) error
}

// Successor is a Processor that can take over the state and the held records of another instance of the same plugin, so
// that a declaration can change while its pipeline runs. The former instance has the same type and ran under the same
// id. None of its methods is running.
type Successor interface {
	// CanSucceed reports whether Succeed can be called: the state of former is compatible with the configured settings.
	// It changes nothing.
	CanSucceed(former Processor) bool
	// Succeed takes over the state of former. It replaces Open. No method of former is called after that.
	Succeed(former Processor)
}

// CommitObserver is a Processor that keeps state from records across runs, such as a set of seen keys, and decides by
// it about later records. A record may be read again until the position that covers it is saved, in this run or, after
// a crash, in the next one. So state learned from a record may be made durable only then. Earlier, the state would mark
// the record as delivered while the record could still be lost.
//
// Durable state is therefore never ahead of the position. It may be behind: after a crash the processor may not know
// the records that were committed last.
type CommitObserver interface {
	// Committed is called with the Tokens of batches whose records are settled and durable in the destinations and the
	// dead-letter queue, once the positions that cover them are saved. It is called once for each batch, soon after a
	// position is saved or as the pipeline ends, and never while another method runs. It is not called for batches that
	// are not committed when the pipeline ends, because those are read again.
	//
	// An error fails the pipeline, like an error of Process.
	Committed(ctx context.Context, tokens []any) error
}
