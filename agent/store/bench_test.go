package store_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

func thousand() (all []spec.Pipeline) {
	for i := range 1000 {
		all = append(all, pipeline(fmt.Sprintf("p%04d", i)))
	}
	return all
}

// BenchmarkOpen opens a store with 1,000 pipelines.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "conduit.db")
	db := open(b, path)
	must(b, db.Apply(b.Context(), declare(thousand()...)))
	must(b, db.Close())
	for b.Loop() {
		db, err := store.Open(b.Context(), path)
		must(b, err)
		must(b, db.Close())
	}
}

// BenchmarkCreate creates a new store.
func BenchmarkCreate(b *testing.B) {
	dir, n := b.TempDir(), 0
	for b.Loop() {
		n++
		db, err := store.Open(b.Context(), filepath.Join(dir, fmt.Sprint(n)))
		must(b, err)
		must(b, db.Close())
	}
}

// BenchmarkDeclarations reads 1,000 declarations.
func BenchmarkDeclarations(b *testing.B) {
	db := newStore(b)
	must(b, db.Apply(b.Context(), declare(thousand()...)))
	for b.Loop() {
		_, err := db.Declarations(b.Context())
		must(b, err)
	}
}

// BenchmarkSaveStateTogether saves the states of 1,000 pipelines at the same time.
func BenchmarkSaveStateTogether(b *testing.B) {
	db := newStore(b)
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				must(b, db.SaveStates(b.Context(),
					[]spec.State{spec.State{PipelineID: fmt.Sprint(i), Phase: spec.PhaseRunning}}))
			})
		}
		wg.Wait()
	}
}
