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

// part appends the records of f for a destination without processors.
func (d *destinationRun) part(f inFlight) {
	if f.passage != nil {
		if records, origins, fewer := d.remaining(f); fewer {
			d.before.Publish(record.NewBatch(records))
			d.branch(f, records, origins)
			return
		}
	}
	d.before.Publish(f.Records)
	d.parts = append(d.parts, part{f, f.Records, f.Records.Len()})
}

// remaining returns the records of f that the destination gets. It omits those for other destinations, and those whose
// input or emission was refused while another piece was on its way here. fewer is false if the destination gets all.
func (d *destinationRun) remaining(f inFlight) (records []record.Record, origins []int32, fewer bool) {
	f.src().mu.Lock()
	defer f.src().mu.Unlock()
	refused := f.Refused() > 0 && (f.Origins != nil || f.Emitted())
	if !refused && !d.run.routed.Load() {
		return nil, nil, false
	}
	all, err := f.Records.Records()
	if err != nil {
		return nil, nil, false // impossible: the batch was decoded for the processors
	}
	records, origins = make([]record.Record, 0, len(all)), make([]int32, 0, len(all))
	for i := range all {
		input := f.Origin(d.index, i)
		if !all[i].GoesTo(d.index) || refused && d.lacksPieces(f, input, i) {
			continue
		}
		records, origins = append(records, all[i]), append(origins, int32(input))
	}
	return records, origins, len(records) < len(all)
}

// lacksPieces reports whether record i of f, which was made from an input, is not written because another record made
// from that input was refused. The caller holds the mutex of the source.
func (d *destinationRun) lacksPieces(f inFlight, input, i int) bool {
	pieces, _ := f.Pieces(d.index, input, i)
	return f.Emitted() || pieces > 1 && f.IsRefused(input)
}

// process runs the processors of the destination over f.
func (d *destinationRun) process(ctx context.Context, f inFlight) error {
	records, origins, err := d.own(f)
	if err != nil {
		return err
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

// own returns the records of f for the processors of the destination, which may change them.
func (d *destinationRun) own(f inFlight) (records []record.Record, origins []int32, err error) {
	if f.passage != nil {
		var fewer bool
		if records, origins, fewer = d.remaining(f); fewer {
			for i := range records {
				if records[i].Shared() {
					records[i] = records[i].Clone()
				}
			}
			d.before.PublishCopy(record.NewBatch(records))
			return records, origins, nil
		}
	}
	d.before.PublishCopy(f.Records)
	b := f.Records
	if len(d.run.dests) > 1 {
		b = b.Clone() // other destinations get the same records
	}
	if records, err = b.Records(); err != nil {
		return nil, nil, fmt.Errorf("cannot decode records for processors: %w", err)
	}
	return records, f.Origins, nil
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
