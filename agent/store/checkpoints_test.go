package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func position(id string, epoch, seq int64) spec.Checkpoint {
	return spec.Checkpoint{ConnectorID: id, PipelineID: "p", Position: record.Position(fmt.Sprint("pos-", seq)),
		Epoch: epoch, Sequence: seq}
}

// positionOf returns the stored position of a source, or nil if there is none.
func positionOf(db *store.DB, id string) (record.Position, error) {
	c, err := db.Checkpoint(context.Background(), id)
	if c == nil {
		return nil, err
	}
	return c.Position, err
}

func TestSaveCheckpoints(t *testing.T) {
	type step struct {
		begin bool
		save  []spec.Checkpoint
		err   error
		want  string // position of p:a afterwards
	}
	one := func(epoch, seq int64) []spec.Checkpoint {
		return []spec.Checkpoint{position("p:a", epoch, seq)}
	}
	tests := map[string][]step{
		"without a run":  {{save: one(0, 1), err: store.ErrFenced}, {save: one(1, 1), err: store.ErrFenced}},
		"growing":        {{begin: true}, {save: one(1, 1), want: "pos-1"}, {save: one(1, 5), want: "pos-5"}},
		"the same again": {{begin: true}, {save: one(1, 5), want: "pos-5"}, {save: one(1, 5), want: "pos-5"}},
		"going back": {{begin: true}, {save: one(1, 5), want: "pos-5"},
			{save: one(1, 4), err: store.ErrOutOfOrder, want: "pos-5"}},
		"obsolete run": {{begin: true}, {save: one(1, 5), want: "pos-5"}, {begin: true},
			{save: one(1, 6), err: store.ErrFenced, want: "pos-5"}},
		"new run counts from 1": {{begin: true}, {save: one(1, 5), want: "pos-5"}, {begin: true},
			{save: one(2, 1), want: "pos-1"}},
		"run that did not begin": {{begin: true}, {save: one(2, 1), err: store.ErrFenced}},
		"all or nothing": {{begin: true}, {save: one(1, 1), want: "pos-1"},
			{save: []spec.Checkpoint{position("p:a", 1, 2), position("p:b", 0, 1)}, err: store.ErrFenced,
				want: "pos-1"}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			db, ctx := newStore(t), t.Context()
			for i, s := range steps {
				if s.begin {
					if _, err := db.BeginRun(ctx, "p"); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if err := db.SaveCheckpoints(ctx, s.save); !errors.Is(err, s.err) {
					t.Fatalf("step %d: error %v, want %v", i, err, s.err)
				}
				if pos, err := positionOf(db, "p:a"); string(pos) != s.want || err != nil {
					t.Fatalf("step %d: position %q, %v, want %q", i, pos, err, s.want)
				}
			}
		})
	}
}

func TestCheckpointErrorNamesTheCulprit(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	_, err := db.BeginRun(ctx, "p")
	must(t, err)
	err = db.SaveCheckpoints(ctx, []spec.Checkpoint{position("p:a", 1, 1), position("p:b", 9, 1)})
	var pe *store.CheckpointError
	if !errors.As(err, &pe) || pe.ConnectorID != "p:b" || pe.PipelineID != "p" {
		t.Fatalf("error %v", err)
	}
	if err := db.SaveCheckpoints(ctx, []spec.Checkpoint{{ConnectorID: "p:a", PipelineID: "p", Epoch: 1,
		Sequence: 1}}); err == nil {
		t.Error("an empty position was saved")
	}
}

func TestEpochsGrowAcrossReopeningAndDeletion(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "conduit.db")
	last := int64(0)
	for range 3 {
		db := open(t, path)
		epoch, err := db.BeginRun(ctx, "p")
		must(t, err)
		if epoch <= last {
			t.Errorf("epoch %d after %d", epoch, last)
		}
		last = epoch
		must(t, db.DeletePipeline(ctx, "p"))
		must(t, db.Close())
	}
}

func TestConcurrentUse(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			id := fmt.Sprint("p", i)
			for range 10 {
				epoch, err := db.BeginRun(ctx, id)
				p := spec.Checkpoint{ConnectorID: id + ":s", PipelineID: id, Position: record.Position("x"),
					Epoch: epoch, Sequence: 1}
				_, readErr := db.Declarations(ctx)
				if err := errors.Join(err, db.SaveCheckpoints(ctx, []spec.Checkpoint{p}),
					db.Apply(ctx, declare(pipeline(id))), readErr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := db.Declarations(ctx)
	must(t, err)
	if len(all) != 8 {
		t.Errorf("%d pipelines, want 8", len(all))
	}
}

func BenchmarkSaveCheckpoints(b *testing.B) {
	for _, sources := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("sources=", sources), func(b *testing.B) {
			db, ctx := newStore(b), b.Context()
			_, err := db.BeginRun(ctx, "p")
			must(b, err)
			positions := make([]spec.Checkpoint, sources)
			seq := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				seq++
				for i := range positions {
					positions[i] = spec.Checkpoint{ConnectorID: fmt.Sprintf("p:%04d", i), PipelineID: "p",
						Position: record.Position("0000000012345678"), Epoch: 1, Sequence: seq}
				}
				must(b, db.SaveCheckpoints(ctx, positions))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*sources), "ns/source")
		})
	}
}
