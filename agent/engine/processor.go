package engine

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/agent/engine/settle"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Processor changes, drops or refuses records on their way from a source.
type Processor interface {
	// ID is the processor's id in its pipeline.
	ID() string
	// Process returns what becomes of each record, in order, one result per record. An
	// error breaks the pipeline; a record that cannot be processed is refused instead.
	Process(ctx context.Context, records []record.Record) ([]Processed, error)
}

// Processed is what became of one record.
type Processed struct {
	Record   record.Record
	Filtered bool  // the record ends here, and counts as handled
	Refused  error // why the record goes to the dead-letter queue
}

// refusal is a record that a processor refused.
type refusal struct {
	record record.Record
	node   string
	err    error
}

// process runs p over b and leaves in it what is to go on.
func process(ctx context.Context, b *settle.Batch, p Processor, refusals []refusal) ([]refusal, error) {
	in, err := b.Records.Records()
	if err != nil || len(in) == 0 {
		return refusals, err
	}
	results, err := p.Process(ctx, in)
	if err != nil {
		return refusals, fmt.Errorf("cannot process records with %s: %w", p.ID(), err)
	}
	if len(results) != len(in) {
		return refusals, permanent(fmt.Errorf("cannot process records with %s: it returned %d results for %d records", p.ID(), len(results), len(in)))
	}
	kept, origins := make([]record.Record, 0, len(in)), make([]int32, 0, len(in))
	for i, r := range results {
		from := b.Origin(i)
		switch {
		case r.Refused != nil:
			refusals = append(refusals, refusal{in[i], p.ID(), r.Refused})
			b.Refuse(from)
		case !r.Filtered:
			kept, origins = append(kept, r.Record), append(origins, int32(from))
		}
	}
	b.Records, b.Origins = record.NewBatch(kept), origins
	return refusals, nil
}
