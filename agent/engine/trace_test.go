package engine_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// fakeTracer keeps the traces of batches.
type fakeTracer struct {
	t       *testing.T
	skip    func(b engine.ReadBatch) bool // nil: none
	mu      sync.Mutex
	batches []*fakeTrace // guarded by mu
}

// fakeTrace is the trace of a batch.
type fakeTrace struct {
	*fakeTracer
	records int
	stages  []engine.TracedStage // guarded by mu
	ended   int                  // guarded by mu
	err     error                // guarded by mu
}

func (t *fakeTracer) Start(b engine.ReadBatch) engine.Trace {
	if b.Pipeline != "p" || b.Source != "p:src" || b.Begin.IsZero() || b.End.Before(b.Begin) {
		t.t.Errorf("a trace begins for %+v", b)
	}
	if t.skip != nil && t.skip(b) {
		return nil
	}
	if err := b.Records.SetMetadata("traced", "yes"); err != nil {
		t.t.Error(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	trace := &fakeTrace{fakeTracer: t, records: b.Records.Len()}
	t.batches = append(t.batches, trace)
	return trace
}

// open returns the number of traces that have not ended.
func (t *fakeTracer) open() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, trace := range t.batches {
		if trace.ended == 0 {
			n++
		}
	}
	return n
}

func (t *fakeTrace) Add(s engine.TracedStage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended > 0 || s.Begin.IsZero() || s.End.Before(s.Begin) {
		t.t.Errorf("after %d ends a stage is added: %+v", t.ended, s)
	}
	t.stages = append(t.stages, s)
}

func (t *fakeTrace) End(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	t.err = err
}

// outcome returns the number of records that passed a stage, over all calls, and the last error.
func (t *fakeTrace) outcome(stage, id string) (records int, err error) {
	for _, s := range t.stages {
		if s.Stage == stage && s.ID == id {
			records += s.Records
			err = errors.Join(err, s.Err)
		}
	}
	return records, err
}

func TestTraceOfABatch(t *testing.T) {
	w := newWorld(t)
	src := w.source("src", 200)
	a, b := w.destination("a", &fakeDestination{}), w.destination("b", &fakeDestination{async: true})
	keep := func(context.Context, *sdk.ProcessBatch) error { return nil }
	w.processor("", "all", keep)
	w.processor("b", "own", keep)
	tracer := &fakeTracer{t: t}
	w.tracer = tracer
	open := -1
	err := w.run(func() bool {
		acked := src.ackedUpTo() == 200
		if acked {
			open = tracer.open()
		}
		return acked
	})
	if err != nil || open != 0 {
		t.Fatalf("%d traces are open when all records are acknowledged: %v", open, err)
	}
	total := 0
	for _, batch := range tracer.batches {
		total += batch.records
		for stage, id := range map[string]string{"process": "p", "process ": "p:b", "write": "p:a", "write ": "p:b",
			"commit": ""} {
			if n, err := batch.outcome(strings.TrimSpace(stage), id); n != batch.records || err != nil {
				t.Errorf("%d of %d records passed %q of %q: %v", n, batch.records, stage, id, err)
			}
		}
		if last := batch.stages[len(batch.stages)-1]; batch.ended != 1 || batch.err != nil ||
			last.Stage != engine.TracedCommit {
			t.Errorf("the trace ended %d times, after %q: %v", batch.ended, last.Stage, batch.err)
		}
	}
	if total != 200 {
		t.Errorf("%d of 200 records are traced", total)
	}
	for _, r := range append(a.records(), b.records()...) {
		if r.Metadata.Get("traced") != "yes" {
			t.Fatalf("a record lost what the tracer set: %v", r.Metadata)
		}
	}
}

// There are more batches than fit into the queue of the destination, so that batches are reused.
func TestBatchesThatAreNotSampled(t *testing.T) {
	w := newWorld(t)
	src, dst := w.source("src", 2000), w.destination("dst", &fakeDestination{})
	tracer := &fakeTracer{t: t}
	batches, records := 0, 0
	tracer.skip = func(b engine.ReadBatch) bool {
		if batches++; batches%2 == 0 {
			return true
		}
		records += b.Records.Len()
		return false
	}
	w.tracer = tracer
	if err := w.run(func() bool { return src.ackedUpTo() == 2000 }); err != nil {
		t.Fatal(err)
	}
	for _, batch := range tracer.batches {
		if n, _ := batch.outcome(engine.TracedCommit, ""); n != batch.records || batch.ended != 1 {
			t.Errorf("%d of %d records are committed, ended %d times", n, batch.records, batch.ended)
		}
		if n, _ := batch.outcome(engine.TracedWrite, "p:dst"); n != batch.records {
			t.Errorf("%d records are written in the trace of a batch of %d", n, batch.records)
		}
		records -= batch.records
	}
	wantValues(t, dst.records(), upTo(2000))
	if want := (batches + 1) / 2; records != 0 || len(tracer.batches) != want {
		t.Errorf("%d of %d batches are traced, %d records are missing", len(tracer.batches), want, records)
	}
}

// The first reads of a source with processors pass in parts.
func TestTraceOfABatchInParts(t *testing.T) {
	w := newWorld(t)
	src := w.source("src", 400)
	src.maxBatch = 400
	w.destination("dst", &fakeDestination{})
	w.processor("", "double", split(2))
	tracer := &fakeTracer{t: t}
	w.tracer = tracer
	if err := w.run(func() bool { return src.ackedUpTo() == 400 }); err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, batch := range tracer.batches {
		for stage, want := range map[string]int{engine.TracedProcess: batch.records, engine.TracedWrite: 2 * batch.records,
			engine.TracedCommit: batch.records} {
			id := map[string]string{engine.TracedProcess: "p", engine.TracedWrite: "p:dst"}[stage]
			if n, _ := batch.outcome(stage, id); n != want {
				t.Errorf("%d records passed %s, want %d", n, stage, want)
			}
		}
		if batch.ended != 1 {
			t.Errorf("the trace ended %d times", batch.ended)
		}
		parts += len(batch.stages)
	}
	if parts <= 3*len(tracer.batches) {
		t.Error("no batch passed in parts")
	}
}

func TestTraceOfRefusedRecords(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.WindowNackThreshold = 0, 0
	src := w.source("src", 50)
	w.destination("dst", &fakeDestination{refuse: refuseEvery(10)})
	tracer := &fakeTracer{t: t}
	w.tracer = tracer
	if err := w.run(func() bool { return src.ackedUpTo() == 50 }); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, batch := range tracer.batches {
		if n, err := batch.outcome(engine.TracedWrite, "p:dst"); n != batch.records {
			t.Errorf("%d of %d records are written: %v", n, batch.records, err)
		} else if err != nil {
			failed++
		}
		if batch.ended != 1 || batch.err != nil {
			t.Errorf("the trace ended %d times: %v", batch.ended, batch.err)
		}
	}
	if failed == 0 {
		t.Error("no trace has the refusal of a record")
	}
}

func TestTracesEndWithTheRun(t *testing.T) {
	w := newWorld(t)
	src := w.source("src", 100)
	w.destination("dst", &fakeDestination{failAt: 50})
	tracer := &fakeTracer{t: t}
	w.tracer = tracer
	err := w.run(func() bool { return src.ackedUpTo() == 100 })
	if err == nil {
		t.Fatal("the run did not fail")
	}
	open := 0
	for _, batch := range tracer.batches {
		if batch.ended != 1 {
			t.Errorf("a trace ended %d times", batch.ended)
		}
		if n, _ := batch.outcome(engine.TracedCommit, ""); n < batch.records {
			if open++; batch.err == nil || !strings.Contains(batch.err.Error(), "disk on fire") {
				t.Errorf("a batch that was not committed ended with %v", batch.err)
			}
		}
	}
	if open == 0 {
		t.Error("every batch was committed")
	}
}

// A tracer that samples nothing, and none, allocate the same: nothing. The engine also allocates for commits, and a busy
// machine makes more of them, so the fewest objects of several runs count.
func TestBatchesWithoutTracesAllocateNothingMore(t *testing.T) {
	const batches = 20_000
	off, unsampled := uint64(math.MaxUint64), uint64(math.MaxUint64)
	for range 5 {
		off = min(off, allocationsOf(t, batches, nil))
		unsampled = min(unsampled, allocationsOf(t, batches, unsampling{}))
		if unsampled < off+batches/20 {
			break
		}
	}
	if more := float64(unsampled) - float64(off); more > batches/20 {
		t.Errorf("%d batches allocate %d objects without a tracer, and %d with one that samples none", batches, off,
			unsampled)
	}
}

// unsampling is a tracer that samples no batch.
type unsampling struct{}

func (unsampling) Start(engine.ReadBatch) engine.Trace { return nil }

// allocationsOf returns the number of objects that an engine allocates for batches of ten records.
func allocationsOf(t *testing.T, batches int, tracer engine.Tracer) uint64 {
	records := make([]record.Record, 10)
	for i := range records {
		records[i] = record.Record{Position: record.Position{byte(i)}, After: record.Raw(make([]byte, 140))}
	}
	e := newBench(t, records, batches*len(records))
	e.pipeline.Tracer = tracer
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e.run(func() { runtime.ReadMemStats(&after) })
	return after.Mallocs - before.Mallocs
}
