package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// flaky is a store that, while it is not healthy, loses writes and answers, and performs some writes later.
type flaky struct {
	*clustertest.Memory
	well atomic.Bool

	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
}

func (f *flaky) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(n)
}

func (f *flaky) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	unknown := protocol.Outcome{Result: protocol.Unknown}
	if f.well.Load() {
		return f.Memory.Write(ctx, w)
	}
	switch f.below(4) {
	case 0:
		return unknown
	case 1:
		time.AfterFunc(time.Duration(f.below(5000))*time.Millisecond, func() {
			f.Memory.Write(context.WithoutCancel(ctx), w)
		})
		return unknown
	case 2:
		f.Memory.Write(ctx, w)
		return unknown
	}
	return f.Memory.Write(ctx, w)
}

// TestRollbacksMoveWithTheClaim moves a pipeline from owner to owner while the store loses writes and answers. Each
// owner tries versions, and some fail. The results of an earlier owner never replace those of a later owner, and the
// next owner continues from the last published result.
func TestRollbacksMoveWithTheClaim(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { rollbacks(t, seed) })
	}
}

func rollbacks(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer cancel()
	m := &clustertest.Memory{}
	store := &flaky{Memory: m, rand: rand.New(rand.NewPCG(seed, 1))}
	var hosts []*versionsHost
	epochs := make([]atomic.Uint64, 3) // of the members' claims
	for i := range epochs {
		h := newVersionsHost(t, fmt.Sprint("m", i), m, 10, "9")
		h.share.Store = store
		h.share.Owner = func(string) (string, uint64, bool) { return "p", epochs[i].Load(), epochs[i].Load() > 0 }
		hosts = append(hosts, h)
		go h.share.Run(ctx)
	}
	var last reconcile.VersionOutcome
	epoch := uint64(0)
	for range 5 {
		owner := store.below(len(hosts))
		for i := range epochs {
			epochs[i].Store(0)
		}
		epoch += 1 + uint64(store.below(3))
		epochs[owner].Store(epoch)
		for range 1 + store.below(3) {
			good, failed := fmt.Sprint(store.below(8)), ""
			if store.below(2) == 0 {
				failed = "9"
			}
			last = version(4, good, failed, "no such table")
			hosts[owner].share.Record("p", last)
			time.Sleep(time.Duration(store.below(3000)) * time.Millisecond)
		}
	}
	store.well.Store(true)
	time.Sleep(time.Minute)
	synctest.Wait()
	var before uint64
	for _, e := range m.Written() {
		var r struct{ Epoch uint64 }
		if err := json.Unmarshal(e.Value, &r); err != nil || r.Epoch < before {
			t.Errorf("seed %d: what the owner with epoch %d tried replaces that of %d: %v", seed, r.Epoch, before, err)
		}
		before = r.Epoch
	}
	next := newVersionsHost(t, "next", m, 10, "9")
	if err := next.share.Inherit(t.Context(), "p"); err != nil || len(next.inherited) != 1 {
		t.Fatalf("seed %d: inherited %v, %v", seed, next.inherited, err)
	}
	got := next.inherited[0]
	if spec.RunDigest(&got.Good.Pipeline) != spec.RunDigest(&last.Good.Pipeline) ||
		(got.Failed == nil) != (last.Failed == nil) {
		t.Errorf("seed %d: the next owner goes on from %+v, want %+v", seed, got, last)
	}
}
