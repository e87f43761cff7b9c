package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Tracer records how batches pass a pipeline. Its methods are safe for concurrent use and return at once.
type Tracer interface {
	// Start begins the trace of a batch that was just read. It returns nil for a batch that is not sampled. It may
	// change the metadata of the records, and must not keep them.
	Start(b ReadBatch) Trace
}

// ReadBatch is a batch that a source returned.
type ReadBatch struct {
	Pipeline string
	Source   string // qualified id
	Records  *record.Batch
	Begin    time.Time // when Read was called
	End      time.Time // when Read returned
}

// Trace is the trace of a batch. Its methods are safe for concurrent use and return at once.
type Trace interface {
	// Add records a stage that some or all records of the batch have passed.
	Add(s TracedStage)
	// End ends the trace: a committed position covers all records, or err ended the run.
	End(err error)
}

// TracedStage is a stage that records of a traced batch have passed.
type TracedStage struct {
	Stage   string // a constant Traced…
	ID      string // of the source, the destination, or the pipeline or connector that has the processors; qualified
	Records int
	Begin   time.Time
	End     time.Time
	Err     error // why the processors failed, or the destination refused a record; without secrets
}

// The values of TracedStage.Stage.
const (
	TracedProcess = "process" // the processors of a connector or of the pipeline
	TracedWrite   = "write"   // from the call of Write until the destination settled the records
	TracedCommit  = "commit"  // from then, for all destinations, until a committed position covers the records
)

// traces are the traces of a run that have not ended. The zero traces is ready to use.
type traces struct {
	mu   sync.Mutex
	open map[*batchTrace]struct{} // guarded by mu
}

func (t *traces) add(b *batchTrace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*batchTrace]struct{}{}
	}
	t.open[b] = struct{}{}
}

// remove reports whether b had not ended.
func (t *traces) remove(b *batchTrace) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.open[b]
	delete(t.open, b)
	return ok
}

// end ends all traces: the run has ended.
func (t *traces) end(err error) {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for b := range open {
		b.End(err)
	}
}

// batchTrace is the trace of a batch of a source.
type batchTrace struct {
	Trace
	run  *run
	left atomic.Int64 // records that no committed position covers
}

// partTrace is the trace of an in-flight batch, which has some or all records of a traced batch. It is an Observer of
// the in-flight batch. A nil partTrace belongs to a batch that is not sampled.
type partTrace struct {
	*batchTrace
	inputs  int
	writes  []tracedWrite // by destination; each guarded by the mu of the destination
	settled time.Time     // guarded by the mu of the source
}

type tracedWrite struct {
	begin   time.Time
	refused error // the last reason
}

// startTrace begins the trace of b, which was read since begin. It returns nil if b is not sampled.
func (s *sourceRun) startTrace(begin time.Time, b *record.Batch) *batchTrace {
	if b.Len() == 0 {
		return nil
	}
	t := s.run.Tracer.Start(ReadBatch{Pipeline: s.run.ID(), Source: s.id, Records: b, Begin: begin, End: time.Now()})
	if t == nil {
		return nil
	}
	bt := &batchTrace{Trace: t, run: s.run}
	bt.left.Store(int64(b.Len()))
	s.run.traces.add(bt)
	return bt
}

// part makes f a part of the traced batch.
func (t *batchTrace) part(f *Batch) {
	p := &partTrace{batchTrace: t, inputs: f.Inputs(), writes: make([]tracedWrite, len(f.branches))}
	f.trace = p
	f.Observers = append(f.Observers, p)
}

// Settled implements Observer.
func (p *partTrace) Settled() { p.settled = time.Now() }

// Committed implements Observer.
func (p *partTrace) Committed() {
	p.Add(TracedStage{Stage: TracedCommit, Records: p.inputs, Begin: p.settled, End: time.Now()})
	if p.left.Add(-int64(p.inputs)) == 0 && p.run.traces.remove(p.batchTrace) {
		p.End(nil)
	}
}

// begin returns the current time for Add, the zero time if the batch is not sampled.
func (p *partTrace) begin() time.Time {
	if p == nil {
		return time.Time{}
	}
	return time.Now()
}

// processed records that n records passed the processors of a stage since begin.
func (p *partTrace) processed(id string, n int, begin time.Time, err error) {
	if p == nil {
		return
	}
	if err != nil {
		err = p.run.redacted(err)
	}
	p.Add(TracedStage{Stage: TracedProcess, ID: id, Records: n, Begin: begin, End: time.Now(), Err: err})
}

// traceSettled records that d settled k records of p, which belong to a traced batch. It precedes their settlement,
// after which the batch may be reused.
func (d *destinationRun) traceSettled(p part, k int, refused error) {
	t := p.trace
	d.mu.Lock()
	w := &t.writes[d.index]
	if refused != nil {
		w.refused = d.run.redacted(refused)
	}
	written := *w
	d.mu.Unlock()
	if k == p.n {
		t.Add(TracedStage{Stage: TracedWrite, ID: d.id, Records: p.batch.Len(), Begin: written.begin, End: time.Now(),
			Err: written.refused})
	}
}
