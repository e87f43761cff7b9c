package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// process passes f, which was read from the source, through the processors of the source and of the pipeline, and
// queues their output.
func (s *sourceRun) process(ctx context.Context, f inFlight) error {
	s.stage.Lock()
	defer s.stage.Unlock()
	emitted, err := s.stage.pass(ctx, &f)
	if err != nil {
		return err
	}
	if s.stage.Unfinished() {
		s.parts.tooMany()
	}
	if err := s.forward(ctx, f, s.emissions(emitted, nil)); err != nil {
		return err
	}
	return s.stage.rest(ctx, s.run, func(emitted []sdk.Emission) error {
		return s.forward(ctx, inFlight{}, s.emissions(emitted, nil))
	})
}

// rest passes on the remaining parts of a batch in the chain of st, which is locked.
func (st stage) rest(ctx context.Context, r *run, pass func(emitted []sdk.Emission) error) error {
	for st.Unfinished() {
		emitted, err := st.attend(ctx, r)
		if err == nil {
			err = pass(emitted)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass runs the chain over f, which then holds the output. It returns the emissions of the chain.
func (st stage) pass(ctx context.Context, f *inFlight) ([]sdk.Emission, error) {
	if !st.Active() || f.Records.Len() == 0 {
		return nil, nil
	}
	records, err := f.Records.Records()
	if err != nil {
		return nil, fmt.Errorf("cannot decode records for processors: %w", err)
	}
	var m made
	if *f, m, err = st.process(ctx, *f, records, f.Origins); err != nil {
		return nil, err
	}
	f.Records, f.Origins = record.NewBatch(m.Records), m.Origins
	return m.Emitted, nil
}

// hold records which inputs of a batch a chain holds.
func (f inFlight) hold(g *given, t *token, held []int32) {
	if len(held) == 0 {
		return
	}
	f.src().mu.Lock()
	defer f.src().mu.Unlock()
	for _, i := range held {
		input := t.input(i)
		g.Held = append(g.Held, int32(input))
		f.Hold(input)
	}
}

// emissions adds emissions of processors to the tracker, for the destination with this index or, if it is nil, for
// all.
func (s *sourceRun) emissions(emitted []sdk.Emission, destination *int) []inFlight {
	var all []inFlight
	for _, e := range emitted {
		s.mu.Lock()
		f := s.tracker.Emission(record.NewBatch(e.Records), len(s.run.dests), func(d int) bool {
			return destination == nil || d == *destination
		})
		f.ReadAt, f.Owner = time.Now(), s
		s.memory.Add(f.Size())
		s.mu.Unlock()
		all = append(all, inFlight{f, &passage{Settles: e.Settles}})
	}
	return all
}

// forward passes a batch, unless it is the zero inFlight, and emissions through the processors of the pipeline and
// queues their output.
func (s *sourceRun) forward(ctx context.Context, f inFlight, emitted []inFlight) error {
	st := s.run.stage
	st.Lock()
	defer st.Unlock()
	if f.Batch != nil {
		emitted = slices.Insert(emitted, 0, f)
	}
	for _, f := range emitted {
		more, err := st.pass(ctx, &f)
		if err != nil {
			return err
		}
		if st.Unfinished() {
			s.parts.tooMany()
		}
		if err := s.handAll(ctx, slices.Insert(s.emissions(more, nil), 0, f)); err != nil {
			return err
		}
		err = st.rest(ctx, s.run, func(emitted []sdk.Emission) error {
			return s.handAll(ctx, s.emissions(emitted, nil))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sourceRun) handAll(ctx context.Context, all []inFlight) error {
	for _, f := range all {
		if err := s.hand(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// hand adds the output of the processors for a batch to the tracker and queues it.
func (s *sourceRun) hand(ctx context.Context, f inFlight) error {
	none := f.Records.Len() == 0
	s.parts.made.Add(int64(f.Records.Memory()))
	if f.Emitted() {
		s.track(f, time.Time{}, func() Change { return s.tracker.Check(f.Batch) })
	} else {
		s.stats.Filtered.Add(f.Filtered(f.Inputs(), f.Origins, f.IsRefused))
		s.add(f)
	}
	if none {
		return nil
	}
	return s.run.queue(ctx, f)
}

// queue queues f for every destination.
func (r *run) queue(ctx context.Context, f inFlight) error {
	for i := range r.dests {
		f.src().under[i].Add(1) // for all before the first, which may settle it meanwhile
	}
	for _, d := range r.dests {
		if err := d.enqueue(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// tend lets the processors of the source, or those of the pipeline when s is nil, emit at their deadlines, and
// notifies them of committed batches. It returns when no more batches will be queued.
func (r *run) tend(ctx context.Context, st stage, s *sourceRun) error {
	for {
		select {
		case <-st.Wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if over, err := r.awake(ctx, st, s); over || err != nil {
			return err
		}
	}
}

func (r *run) awake(ctx context.Context, st stage, s *sourceRun) (over bool, err error) {
	defer r.recheck()
	st.Lock()
	defer st.Unlock()
	if st.Closed() {
		return true, nil
	}
	emitted, err := st.attend(ctx, r)
	if err != nil {
		return false, err
	}
	pass := func(emitted []sdk.Emission) error {
		if len(emitted) == 0 {
			return nil
		}
		if s != nil {
			return s.forward(ctx, inFlight{}, s.emissions(emitted, nil))
		}
		return r.sources[0].handAll(ctx, r.sources[0].emissions(emitted, nil))
	}
	if err := pass(emitted); err != nil {
		return false, err
	}
	return false, st.rest(ctx, r, pass)
}

// checkHeld returns an error when no source has space in its window and only processors hold outstanding records,
// which they will not release by themselves. It locks the stages meanwhile, because neither a processor nor the
// tracker counts a batch on its way between them. If a stage is busy, recheck follows.
func (r *run) checkHeld() error {
	r.checking.Lock()
	defer r.checking.Unlock()
	holding := 0
	for _, st := range r.stages() {
		if !st.Active() {
			continue
		}
		if !st.TryLock() {
			return nil
		}
		defer st.Unlock()
		if st.Waits() {
			return nil
		}
		holding++
	}
	if holding == 0 {
		return nil
	}
	for _, other := range r.sources {
		other.mu.Lock()
		stuck := other.blocked && other.tracker.WaitsForHeld()
		other.mu.Unlock()
		if !stuck {
			return nil
		}
	}
	return Permanent(fmt.Errorf(
		"cannot read more records: processors hold as many records as may be in flight, and wait for others before " +
			"they release them go"))
}

// recheck makes sources without space check again whether the window can open.
func (r *run) recheck() {
	for _, s := range r.sources {
		s.freed.Notify()
		s.relieve()
	}
}
