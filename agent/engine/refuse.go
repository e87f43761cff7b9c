package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// refuseAll sends the records that a chain refused of the batch of t to the dead-letter queue. It returns the refused
// inputs.
func (r *run) refuseAll(ctx context.Context, t *token, refusals []connector.Refusal) (inputs []int32, err error) {
	for i, refusal := range refusals {
		if i+1 == len(refusals) || refusals[i+1].Processor != refusal.Processor {
			r.Stats.Refusals(refusal.Processor).Note(r.redacted(refusal.Err).Error(), time.Now())
		}
		l := DeadLetter{Record: refusal.Record, RefusedBy: refusal.Processor, Entry: refusal.Entry, Err: refusal.Err}
		if refusal.Index < 0 {
			err = r.refuseSettled(ctx, refusal.Settles, l)
			r.release(refusal.Settles)
		} else {
			input := t.input(refusal.Index)
			inputs = append(inputs, int32(input))
			err = t.refuse(ctx, input, l)
		}
		if err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// refuseSettled sends the records from which an emission was made to the dead-letter queue.
func (r *run) refuseSettled(ctx context.Context, settles []sdk.Held, l DeadLetter) error {
	if n := len(settles) - 1; n > 0 {
		l.Err = fmt.Errorf("the record joined from this one and %d others: %w", n, l.Err)
	}
	for _, h := range settles {
		t := h.Batch.(*token)
		input := t.input(h.Index)
		l.Record, l.Entry = t.Original(input)
		if err := t.refuse(ctx, input, l); err != nil {
			return err
		}
	}
	return nil
}

// refuse sends a dead letter for an input of f to the queue. If this input was refused before, refuse at most keeps the
// dead letter in the store. The dead letter has the input as it was before it was split or held. For an emission,
// refuse sends the records from which it was made.
func (f inFlight) refuse(ctx context.Context, input int, l DeadLetter) error {
	f.src().mu.Lock()
	first := f.Refuse(input)
	f.src().mu.Unlock()
	l.SourceID, l.Original = f.src().id, f.AsRead(input)
	queue := f.src().run.deadLetters
	switch whole := f.Whole(input); {
	case !first && (!whole || len(f.Settles) > 0):
		return nil
	case !first:
		return queue.keep(ctx, &l)
	case len(f.Settles) > 0: // this emission has everything made from them
		return f.src().run.refuseSettled(ctx, f.Settles, l)
	case !whole:
		l.Record, l.Entry = f.Original(input)
	}
	return queue.nack(ctx, &l)
}

// refuseAt sends the input of record i for the destination, which refused it, to the
// dead-letter queue.
func (d *destinationRun) refuseAt(p part, i int, r record.Record, cause error) error {
	l := DeadLetter{SourceID: p.src().id, Record: r, RefusedBy: d.id, Destination: true, Entry: d.id, Err: cause}
	if p.passage == nil {
		if d.run.keepsOriginal() {
			l.Original = &l.Record
		}
		return d.run.deadLetters.nack(d.run.ctx, &l)
	}
	p.src().mu.Lock()
	input := p.Origin(d.index, i)
	pieces, before := p.Pieces(d.index, input, i)
	p.src().mu.Unlock()
	if pieces > 1 {
		l.Err = fmt.Errorf("piece %d of %d: %w", before+1, pieces, cause)
		l.Record, l.Entry = p.Original(input)
	}
	return p.refuse(d.run.ctx, input, l)
}

// release settles pieces that processors held.
func (r *run) release(settles []sdk.Held) {
	for _, h := range settles {
		t := h.Batch.(*token)
		t.src().release(t.inFlight, t.input(h.Index))
	}
}
