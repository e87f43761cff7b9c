package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/plugins/connector"
)

// A source is stalled when it reads nothing more until its records are acknowledged: its window is full, its system
// sends no more, or there is no memory. A source whose memory another one waits for is stalled, too. Destinations that
// gather records and processors that hold records then wait for records that cannot come. Once the source has no other
// records in flight, destinations write out their gathered records, and if that is not enough, processors release
// their held records.

// stall records that the source is stalled or waits for memory, until its next Read.
func (s *sourceRun) stall() {
	s.stalled.Store(true)
	s.relieve()
}

// starves reports whether the source is stalled and waits only for records that destinations gather or processors
// hold.
func (s *sourceRun) starves() bool {
	s.mu.Lock()
	m, bytes := s.tracker.Marks, s.tracker.Bytes()
	stalled := s.stalled.Load() || s.memory.Contended() || s.blocked && !s.mayRead(m, bytes)
	s.mu.Unlock()
	if !stalled || m.Acked < m.Low || m.Low == m.Read { // a commit helps, or it has nothing outstanding
		return false
	}
	for i, d := range s.run.dests {
		if s.under[i].Load() > 0 && !d.gathers() {
			return false // the destination will settle records, which may help, or lead to relieve
		}
	}
	return true
}

// relieve completes the batches and windows that wait for records of the source, if it waits for nothing else. It may
// be called from any goroutine that holds no locks.
func (s *sourceRun) relieve() {
	if !s.starves() {
		s.mu.Lock()
		open := s.blocked && s.mayRead(s.tracker.Marks, s.tracker.Bytes())
		s.mu.Unlock()
		if open { // by memory that others released
			s.freed.Notify()
		}
		if s.stalled.Load() {
			s.run.Committer.FlushNow() // the source may wait only for this commit
		}
		return
	}
	gathered := false
	for i, d := range s.run.dests {
		switch {
		case !d.gathers():
		case d.holds():
			gathered = true
			d.complete()
		case s.under[i].Load() > 0: // once it is written, relieve is called
			gathered = true
		}
	}
	if gathered {
		return
	}
	for _, st := range s.run.stages() {
		st.LetGo()
	}
}

// starves reports whether any source starves.
func (r *run) starves() bool { return slices.ContainsFunc(r.sources, (*sourceRun).starves) }

// relieve completes the batches and windows that wait for records of stalled sources.
func (r *run) relieve() {
	for _, s := range r.sources {
		s.relieve()
	}
}

// done records that a destination settled a batch that was queued or emitted for it.
func (s *sourceRun) done(destination int) {
	if s.under[destination].Add(-1) == 0 {
		s.relieve()
	}
}

// Complete makes the stages stop waiting for more records, since none will come for now: sources take a partial record
// as complete, destinations write out incomplete batches, and processors release held records. It does nothing while
// the pipeline does not run, and may be called at any time.
func (p *Pipeline) Complete() {
	r := p.running.Load()
	if r == nil {
		return
	}
	for _, s := range r.sources {
		connector.Finish(s.src)
		s.stall()
	}
}

// waitsForMemory records that the source waits for memory. It reports whether the source proceeds without it.
func (s *sourceRun) waitsForMemory() bool {
	if s.leavesOnlyHeld() {
		return true
	}
	s.stall()
	return false
}

// leavesOnlyHeld reports whether the run drains, and no batch of the source is in flight to a destination. Then its
// window does not open any more: the next run reads the records that processors hold again.
func (s *sourceRun) leavesOnlyHeld() bool {
	if !s.run.draining() {
		return false
	}
	for i := range s.under {
		if s.under[i].Load() > 0 {
			return false
		}
	}
	return true
}

// renew replaces a connector that gathers records by a new instance. A connector that is not a Gatherer, such as an
// executable, writes out its gathered records only when it ends. The caller holds the gate, so that no amendment
// replaces the connector meanwhile.
func (d *destinationRun) renew(ctx context.Context) (err error) {
	r := d.run
	old := d.out.Load()
	o := &opened[connector.Destination]{id: old.id, declared: old.declared, plugin: old.plugin, settings: old.settings,
		lifecycle: old.lifecycle}
	defer func() {
		if err != nil && d.out.Load() != o {
			err = errors.Join(err, end(context.WithoutCancel(ctx), o))
		}
	}()
	if err := r.startDestination(ctx, o); err != nil {
		return err
	}
	if err := d.flush(ctx); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTeardown)
	defer cancel()
	if err := end(ending, old); err != nil {
		r.Log.Warn("cannot tear down", "err", err)
	}
	d.out.Store(o)
	r.keep(d.index, o)
	if err := r.openDestination(ctx, r.version.Load().declared, o, d.settledBy(o)); err != nil {
		return err
	}
	d.renewed.Do(func() {
		r.Log.Warn("the destination was restarted to write an incomplete batch, and this will happen again: its "+
			"sources cannot read more records before the batch is written, and a connector executable writes an "+
			"incomplete batch only when it ends. Set a smaller sdk.batch.size, or a shorter sdk.batch.delay, so that "+
			"a batch is complete before the limit of in-flight records is reached",
			"connector", d.id, "sdk.batch.size", fmt.Sprint(o.batching.Size), "sdk.batch.delay",
			o.batching.Delay.String())
	})
	return nil
}
