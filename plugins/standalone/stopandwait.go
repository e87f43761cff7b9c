package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// StopAndWait makes the destination wait, from its first Write on, for the answers to one message before it sends the
// next. That is slower, but separates records that many plugins treat alike: when one record of a message fails, they
// refuse all records after it, too, for the same reason and without an attempt. The destination sends those records
// again, in order. It must not be used with a connector that gathers records over messages. It is called before Open.
func (d *Destination) StopAndWait() { d.stopAndWait = true }

// answer passes answers to the Write that waits for them.
func (d *Destination) answer(acks []wire.Ack) {
	select {
	case d.answers <- acks:
	case <-d.flushing:
	case <-d.stream.ctx.Done():
	}
}

// writeAndWait sends the records i to j-1 of b, encoded in f, and settles the records that the answers decide. It
// returns the first record to send next. If refused is not nil, record i cannot be sent at all.
func (d *Destination) writeAndWait(
	ctx context.Context, b *record.Batch, f wire.Frame, i, j int, refused error,
) (next int, err error) {
	if refused != nil {
		d.settled(1, refused)
		return j, nil
	}
	d.awaited.Store(int64(j - i))
	if err := d.send(ctx, f, b.Position(j-1)); err != nil {
		return i, err
	}
	var acks []wire.Ack
	for len(acks) < j-i {
		more, err := d.awaitAnswers(ctx)
		if err != nil {
			return i, err
		}
		for _, a := range more {
			if len(acks) == j-i || !bytes.Equal(a.Position, b.Position(i+len(acks))) {
				return i, fmt.Errorf("cannot write to connector %s: the plugin acknowledged record %.100q out of order",
					d.id, a.Position)
			}
			acks = append(acks, a)
		}
	}
	return i + d.settleAnswered(acks), nil
}

func (d *Destination) awaitAnswers(ctx context.Context) ([]wire.Ack, error) {
	select {
	case acks := <-d.answers:
		return acks, nil
	case <-d.done:
		return nil, fmt.Errorf("cannot write to connector %s: %w", d.id, d.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// settleAnswered settles a message by its answers and returns the number of settled records. It does not settle records
// that were refused only because an earlier record failed.
func (d *Destination) settleAnswered(acks []wire.Ack) int {
	for i := 0; i < len(acks); {
		n := i
		for n < len(acks) && acks[n].Error == "" {
			n++
		}
		if n > i {
			d.settled(n-i, nil)
			i = n
			continue
		}
		d.settled(1, errors.New(acks[i].Error))
		if i++; i < len(acks) && allSay(acks[i:], acks[i-1].Error) {
			return i
		}
	}
	return len(acks)
}

// allSay reports whether all answers are refusals with the same text.
func allSay(acks []wire.Ack, text string) bool {
	for _, a := range acks {
		if a.Error != text {
			return false
		}
	}
	return true
}
