package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// prepare passes batches through the processors of the destination, if there are any, and makes the parts to write. It
// returns the batches for the next call. more reports that another call is needed, since the processors have parts
// left.
func (d *destinationRun) prepare(ctx context.Context, batches []inFlight) (left []inFlight, more bool, err error) {
	d.parts = d.parts[:0]
	if !d.stage.Active() {
		for _, f := range batches {
			d.part(f)
		}
		return nil, false, nil
	}
	defer d.run.recheck()
	d.stage.Lock()
	defer d.stage.Unlock()
	emitted, err := d.stage.attend(ctx, d.run)
	if err != nil {
		return nil, false, err
	}
	d.emit(d.run.sources[0], emitted)
	for i, f := range batches {
		if d.stage.Unfinished() {
			return batches[i:], true, nil
		}
		if !d.stage.Active() { // the chain was removed
			d.part(f)
		} else if err := d.process(ctx, f); err != nil {
			return nil, false, err
		}
	}
	return nil, d.stage.Unfinished(), nil
}

// part appends the records of f for a destination without processors. It omits pieces of a record that was refused
// meanwhile.
func (d *destinationRun) part(f inFlight) {
	d.before.Publish(f.Records)
	if f.passage == nil {
		d.parts = append(d.parts, part{f, f.Records, f.Records.Len()})
		return
	}
	records, origins, dropped := d.remaining(f)
	if dropped {
		d.branch(f, records, origins)
		return
	}
	d.parts = append(d.parts, part{f, f.Records, f.Records.Len()})
}

// remaining returns the records of f, except those whose input or emission was refused while another piece was on its
// way here.
func (d *destinationRun) remaining(f inFlight) (records []record.Record, origins []int32, dropped bool) {
	f.src().mu.Lock()
	defer f.src().mu.Unlock()
	if f.Refused() == 0 || f.Origins == nil && !f.Emitted() {
		return nil, nil, false
	}
	all, err := f.Records.Records()
	if err != nil {
		return nil, nil, false // impossible: the batch was decoded for the processors
	}
	records, origins = make([]record.Record, 0, len(all)), make([]int32, 0, len(all))
	for i, r := range all {
		input := f.Origin(d.index, i)
		pieces, _ := f.Pieces(d.index, input, i)
		if !f.Emitted() && (pieces == 1 || !f.IsRefused(input)) {
			records, origins = append(records, r), append(origins, int32(input))
		}
	}
	return records, origins, len(records) < len(all)
}

// process runs the processors of the destination over f.
func (d *destinationRun) process(ctx context.Context, f inFlight) error {
	d.before.PublishCopy(f.Records)
	b := f.Records
	if len(d.run.dests) > 1 {
		b = b.Clone() // other destinations get the same records
	}
	records, err := b.Records()
	if err != nil {
		return fmt.Errorf("cannot decode records for processors: %w", err)
	}
	origins := f.Origins
	if f.passage != nil {
		if left, origin, dropped := d.remaining(f); dropped {
			records, origins = left, origin
		}
	}
	f, m, err := d.stage.process(ctx, f, records, origins)
	if err != nil {
		return err
	}
	if n := f.Records.Len(); n > 0 && len(m.Records) > 0 {
		f.src().parts.branch.Store(int64(record.NewBatch(m.Records).Memory() / n))
	}
	if m.Origins == nil {
		d.parts = append(d.parts, part{f, record.NewBatch(m.Records), len(m.Records)})
	} else {
		d.branch(f, m.Records, m.Origins)
	}
	d.emit(f.src(), m.Emitted)
	return nil
}

// branch records that the destination gets these records of f, and appends them to the parts.
func (d *destinationRun) branch(f inFlight, records []record.Record, origins []int32) {
	if len(records) > 0 {
		d.parts = append(d.parts, part{f, record.NewBatch(records), len(records)})
	}
	f.src().track(f, time.Now(), func() Change { return f.src().tracker.Branch(f.Batch, d.index, origins) })
	if len(records) == 0 {
		f.src().done(d.index)
	}
}

// emit appends the emissions of the processors of the destination to the parts.
func (d *destinationRun) emit(s *sourceRun, emitted []sdk.Emission) {
	for _, f := range s.emissions(emitted, &d.index) {
		if n := f.Records.Len(); n > 0 {
			s.under[d.index].Add(1)
			d.parts = append(d.parts, part{f, f.Records, n})
		}
		s.track(f, time.Time{}, func() Change { return s.tracker.Check(f.Batch) })
	}
}
