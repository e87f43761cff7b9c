package engine

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/agent/engine/deadletter"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// refuseAll sends what a chain refused, when it was given the batch of t, to the dead-letter
// queue. It returns the inputs of that batch among it.
func (r *run) refuseAll(ctx context.Context, t *token, refusals []connector.Refusal) (inputs []int32, err error) {
	for _, refusal := range refusals {
		if refusal.Index < 0 {
			err = r.refuseSettled(ctx, refusal.Settles, refusal.Processor, refusal.Err)
			r.release(refusal.Settles)
		} else {
			input := t.input(refusal.Index)
			inputs = append(inputs, int32(input))
			err = t.refuse(ctx, input, refusal.Record, refusal.Processor, refusal.Err)
		}
		if err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// refuseSettled sends the records of which an emission was made to the dead-letter queue.
func (r *run) refuseSettled(ctx context.Context, settles []sdk.Held, node string, cause error) error {
	if n := len(settles) - 1; n > 0 {
		cause = fmt.Errorf("the record made of this one and %d others: %w", n, cause)
	}
	for _, h := range settles {
		t := h.Batch.(*token)
		input := t.input(h.Index)
		if err := t.refuse(ctx, input, t.Original(input), node, cause); err != nil {
			return err
		}
	}
	return nil
}

// refuse sends r to the dead-letter queue for an input of f, unless there is one for it
// already. It is the input as it was before it was split or held, if it was. For an emission
// it is the records of which that was made that go there.
func (f inFlight) refuse(ctx context.Context, input int, r record.Record, node string, cause error) error {
	f.src().mu.Lock()
	first := f.Refuse(input)
	f.src().mu.Unlock()
	switch {
	case !first:
		return nil
	case len(f.Settles) > 0: // all that became of them is in this emission
		return f.src().run.refuseSettled(ctx, f.Settles, node, cause)
	case !f.Whole(input):
		r = f.Original(input)
	}
	return f.src().run.dlq.nack(ctx, f.src().id, r, node, cause)
}

// refuseAt sends the input of record i for the destination, which refused it, to the
// dead-letter queue.
func (d *destinationRun) refuseAt(p part, i int, r record.Record, cause error) error {
	if p.Passage == nil {
		return d.run.dlq.nack(d.run.ctx, p.src().id, r, deadletter.Acker(d.id), cause)
	}
	p.src().mu.Lock()
	input := p.Origin(d.index, i)
	pieces, before := p.Pieces(d.index, input, i)
	p.src().mu.Unlock()
	if pieces > 1 {
		cause = fmt.Errorf("piece %d of %d: %w", before+1, pieces, cause)
		r = p.Original(input)
	}
	return p.refuse(d.run.ctx, input, r, deadletter.Acker(d.id), cause)
}

// release settles pieces that processors held.
func (r *run) release(settles []sdk.Held) {
	for _, h := range settles {
		t := h.Batch.(*token)
		t.src().release(t.inFlight, t.input(h.Index))
	}
}
