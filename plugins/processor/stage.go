package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// stage is one processor of a chain with its condition and its instances.
type stage struct {
	id, plugin string
	stateDir   string              // directory of the durable state; empty: no durable state
	condition  *template.Condition // nil: always
	reads      schema.Parts        // parts that the condition reads
	decodes    schema.Parts        // parts that are decoded for the processor
	encodes    schema.Parts        // parts whose shape the processor may change
	workers    []*worker
	former     *stage // stage whose state the processor takes over instead of Open; nil: none
	holding    int    // records and pieces that the processor holds
	unproven   int    // records to process before missing fields are reported
	found      bool   // every field was found
	stats      *Stats
	end        func()             // ends its registration as running
	hung       bool               // a call did not return in time. Guarded by the mutex of guard
	timeLimit  template.TimeLimit // for the condition

	selected []int32    // reused
	fates    []sdk.Fate // reused; fates of refused records in choose, and of several workers
}

// worker is an instance of a processor.
type worker struct {
	processor sdk.Processor
	env       *sdk.Env
	batch     sdk.ProcessBatch
}

// run runs the stage over w. n is its number in the chain.
func (s *stage) run(ctx context.Context, w *work, n int) error {
	tap := w.chain.options.Tap
	if tap != nil && len(w.records) > 0 {
		tap(s.id, false, w.records)
	}
	accepted := len(w.records)
	selected := s.choose(ctx, w)
	if err := context.Cause(ctx); err != nil { // the records that choose refused are not at fault
		return err
	}
	count := len(w.records)
	if selected != nil {
		count = len(selected)
	}
	fates := s.fates // of records that choose refused
	if count > 0 || s.due(w.chain) {
		var err error
		if fates, err = s.process(ctx, w, selected, count, n); err != nil {
			return err
		}
	}
	if len(fates) > 0 {
		accepted -= w.apply(s, fates)
		clear(s.fates)
		s.fates = s.fates[:0]
	}
	s.stats.Accepted.Add(uint64(accepted))
	s.stats.Out.Add(uint64(len(w.records)))
	if tap != nil && len(w.records) > 0 {
		tap(s.id, true, w.records)
	}
	return nil
}

// refuseMetadata refuses records with too much metadata. s is the last stage.
func (s *stage) refuseMetadata(w *work) {
	for i := range w.records {
		if n := len(w.records[i].Metadata); n > record.MaxMetadata {
			w.records[i].Metadata = w.records[i].Metadata[:record.MaxMetadata:record.MaxMetadata]
			s.decide(w, i, sdk.Fate{Kind: sdk.Refused,
				Err: fmt.Errorf("its metadata has %d entries, more than %d: put "+
					"some into the payload", n, record.MaxMetadata)})
		}
	}
	if len(s.fates) > 0 {
		w.apply(s, s.fates)
		clear(s.fates)
		s.fates = s.fates[:0]
	}
}

func (s *stage) due(c *Chain) bool {
	d := s.deadline()
	if d.IsZero() {
		return false
	}
	now := time.Now()
	if c.options.Clock != nil {
		now = c.options.Clock.Now()
	}
	return !now.Before(d)
}

func (s *stage) deadline() time.Time {
	if t, ok := s.workers[0].processor.(sdk.TimedProcessor); ok {
		return t.Deadline()
	}
	return time.Time{}
}

// choose returns the indices of the records that the processor gets, nil for all, and decodes the parts that the
// processor reads. A record is refused if its condition or decoding fails.
func (s *stage) choose(ctx context.Context, w *work) []int32 {
	schemas := w.chain.schemas
	w.extend()
	if s.condition == nil && (schemas == nil || !s.decodes.Key && !s.decodes.Payload) {
		return nil
	}
	s.timeLimit.BeginWithin(ctx, w.chain.options.Timeout)
	s.selected = slices.Grow(s.selected[:0], max(1, len(w.records))) // nil means all
	progress := &w.chain.guard.host.progress
	progress.Start(len(w.records))
	defer progress.End()
	for i := range w.records {
		if ctx.Err() != nil {
			return nil
		}
		progress.Turn(i)
		if i > 0 && w.take(int32(i), 0) != nil {
			for ; i < len(w.records); i++ {
				s.decide(w, i, sdk.Fate{Kind: sdk.Postponed})
			}
			return s.selected
		}
		r := &w.records[i]
		matches, err := true, w.decode(ctx, i, s.reads)
		if err == nil && s.condition != nil {
			matches, err = s.condition.Match(&s.timeLimit, r)
		}
		if err == nil && matches {
			err = w.decode(ctx, i, s.decodes)
		}
		switch {
		case err != nil:
			s.decide(w, i, sdk.Fate{Kind: sdk.Refused, Err: err})
		case matches:
			s.selected = append(s.selected, int32(i))
		}
	}
	if len(s.selected) == len(w.records) {
		return nil
	}
	return s.selected
}

// decode decodes the parts of record i that are encoded with a schema.
func (w *work) decode(ctx context.Context, i int, parts schema.Parts) error {
	schemas, r := w.chain.schemas, &w.records[i]
	if schemas == nil {
		return nil
	}
	isRaw := func(d record.Data) bool { _, ok := d.Raw(); return ok }
	parts.Key = parts.Key && isRaw(r.Key)
	parts.Payload = parts.Payload && (isRaw(r.Before) || isRaw(r.After))
	if !parts.Key && !parts.Payload {
		return nil
	}
	n, err := schemas.DecodeRecordWithin(ctx, r, parts, w.budget)
	if err != nil {
		return fmt.Errorf("cannot decode the record for a processor: %w", err)
	}
	if n == 0 {
		return nil
	}
	return w.take(int32(i), n)
}

func (s *stage) decide(w *work, i int, f sdk.Fate) {
	if n := len(w.records); len(s.fates) == 0 {
		if cap(s.fates) < n {
			s.fates = make([]sdk.Fate, n)
		}
		s.fates = s.fates[:n]
	}
	s.fates[i] = f
}

// process gives the chosen records to the workers and returns the fates of all records, or none if all records pass
// unchanged.
func (s *stage) process(ctx context.Context, w *work, selected []int32, count, n int) ([]sdk.Fate, error) {
	start := time.Now()
	defer s.stats.begin()()
	used := s.workers[:max(1, min(len(s.workers), count))]
	err := w.chain.guard.inCall(ctx, s, func() error { return s.callAll(ctx, w, used, selected, count) })
	if err != nil {
		return nil, err
	}
	s.stats.observe(count, time.Since(start))
	s.seek(count)
	for _, k := range used {
		s.emit(w.chain, k, n)
	}
	if len(used) == 1 && len(s.fates) == 0 {
		return used[0].batch.Fates(), nil
	}
	for _, k := range used {
		for i, f := range k.batch.Fates() {
			if f.Kind != sdk.Kept {
				s.decide(w, i, f)
			}
		}
	}
	return s.fates, nil
}

// minSeeking is the number of records without a field after which the field is reported.
const minSeeking = 10

// seek reports the fields that the processor reads and that no record had so far, after count more records.
func (s *stage) seek(count int) {
	if s.unproven -= count; s.unproven > 0 || s.found {
		return
	}
	var never []string
	for i, k := range s.workers {
		one, ok := k.processor.(sdk.FieldReader)
		if !ok {
			break
		}
		if fields := one.NeverFound(); i == 0 {
			never = fields
		} else {
			never = slices.DeleteFunc(never, func(field string) bool { return !slices.Contains(fields, field) })
		}
	}
	if before := s.stats.NeverFound.Load(); before == nil || !slices.Equal(*before, never) {
		s.stats.NeverFound.Store(&never)
	}
	s.found = len(never) == 0
}

// emit queues the emissions of a worker of the stage. n is the number of the stage in the chain.
func (s *stage) emit(c *Chain, k *worker, n int) {
	emitted := k.batch.Emitted()
	c.emitted(n, emitted)
	for _, e := range emitted {
		if tap := c.options.Tap; tap != nil && len(e.Records) > 0 {
			tap(s.id, true, e.Records)
		}
	}
}

// releasable reports whether the processor holds records that it can release early.
func (s *stage) releasable() bool {
	_, ok := s.workers[0].processor.(sdk.Releaser)
	return ok && s.holding > 0
}

// release makes the processor release its held records. n is the number of the stage in the chain; the stage must be
// releasable.
func (s *stage) release(ctx context.Context, c *Chain, n int) error {
	k := s.workers[0]
	k.batch.Reset(nil, nil, nil)
	err := c.guard.inCall(ctx, s, func() error {
		return k.follow(0, func() error {
			return k.processor.(sdk.Releaser).Release(sdk.WithEnv(ctx, k.env), &k.batch)
		})
	})
	if err != nil {
		return err
	}
	s.emit(c, k, n)
	return nil
}

// callAll divides the records among the workers, in order, and waits for all workers.
func (s *stage) callAll(ctx context.Context, w *work, workers []*worker, selected []int32, count int) error {
	if len(workers) == 1 {
		return s.call(ctx, w, workers[0], selected)
	}
	if selected == nil {
		selected = s.selected[:0]
		for i := range int32(count) {
			selected = append(selected, i)
		}
		s.selected = selected
	}
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, k := range workers {
		share := selected[i*count/len(workers) : (i+1)*count/len(workers)]
		wg.Go(func() { errs[i] = s.call(ctx, w, k, share) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// call makes a worker process its share. A panic becomes an error.
func (s *stage) call(ctx context.Context, w *work, k *worker, share []int32) error {
	k.batch.Reset(w.token, w.records, share)
	k.batch.OnHold(nil)
	k.batch.OnTake(w.take)
	k.batch.OnRecord(k.env.Progress)
	if w.group != nil || w.origins != nil {
		k.batch.OnHold(w.name)
	}
	return k.follow(k.batch.Len(), func() error { return k.processor.Process(sdk.WithEnv(ctx, k.env), &k.batch) })
}

// follow calls f, which calls the processor with n records, and tracks its progress.
func (k *worker) follow(n int, f func() error) error {
	if p := k.env.Progress; p != nil {
		p.Start(n)
		defer p.End()
	}
	return contain(f)
}

func (s *stage) teardown(ctx context.Context, g *guard) error {
	s.end()
	if g.isHung(s) {
		return nil // the goroutine of the call ends the workers
	}
	return s.endWorkers(ctx)
}

func (s *stage) endWorkers(ctx context.Context) error {
	var errs []error
	for _, k := range s.workers {
		errs = append(errs, contain(func() error { return k.processor.Teardown(sdk.WithEnv(ctx, k.env)) }))
	}
	return errors.Join(errs...)
}
