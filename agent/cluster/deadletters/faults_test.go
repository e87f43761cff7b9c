package deadletters_test

import (
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster/deadletters"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// The size of TestFaults.
var (
	seeds  = flag.Uint64("seeds", 1, "histories with faults, from seed 0 on")
	owners = flag.Uint64("owners", 2, "owners of the claim in each history, one after the other")
)

// TestFaults lets members append, edit and drop at the same time, while the claim moves, former owners continue for
// some time, and writes are lost, applied without an answer, or applied late. A dead letter that is in the store when a
// position counts stays there, once, until it is dropped.
func TestFaults(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testFaults(t, seed) })
	}
}

// ledger is the expected content.
type ledger struct {
	mu      sync.Mutex
	kept    map[string]bool // guarded by mu: keys that must exist, or must no longer exist
	dropped map[string]bool // guarded by mu: keys with an attempt to drop them
}

func (l *ledger) note(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.kept[key] = true
	}
}

func testFaults(t *testing.T, seed uint64) {
	m := &memory{}
	odds := mathrand.New(mathrand.NewPCG(seed, 1))
	m.fault = func() fault { // called with the lock of m held
		return []fault{fine, fine, fine, fine, fine, fine, fine, lostAnswer, lostWrite, lateWrite}[odds.IntN(10)]
	}
	hosts := []*host{newHost(t, m, deadletter.Limits{}), newHost(t, m, deadletter.Limits{}),
		newHost(t, m, deadletter.Limits{})}
	l := &ledger{kept: map[string]bool{}, dropped: map[string]bool{}}
	var working sync.WaitGroup
	ended, steps := make(chan struct{}), make(chan struct{})
	for i, h := range hosts {
		r := mathrand.New(mathrand.NewPCG(seed, uint64(i+2)))
		working.Go(func() { dropSome(h, l, r, steps, ended) })
	}
	r := mathrand.New(mathrand.NewPCG(seed, 100))
	for epoch := uint64(1); epoch <= *owners; epoch++ {
		h := hosts[r.IntN(len(hosts))]
		h.owns("p", epoch)
		var owning sync.WaitGroup
		seeds := []uint64{r.Uint64(), r.Uint64()}
		owning.Go(func() { refuseSome(h, l, epoch, 5, seeds[0], steps) })
		if former := hosts[r.IntN(len(hosts))]; former != h {
			owning.Go(func() { refuseSome(former, l, epoch+1000, 2, seeds[1], steps) })
		}
		owning.Go(func() { // a replay
			key := fmt.Sprint("replayed-", epoch)
			if (deadletters.Replayed{Store: hosts[1].Store}).Keep(t.Context(), declared("p"),
				refused("p", key, "")) == nil {
				l.note([]string{key})
			}
		})
		owning.Wait()
	}
	close(ended)
	working.Wait()
	m.set(func() { m.fault = nil })
	l.check(t, newHost(t, m, deadletter.Limits{}))
}

// refuseSome makes a member that believes to own the claim keep records and save positions.
func refuseSome(h *host, l *ledger, name uint64, commits int, seed uint64, steps chan struct{}) {
	r := mathrand.New(mathrand.NewPCG(seed, 0))
	for i := range commits {
		var keys []string
		for j := range 1 + r.IntN(40) {
			key := fmt.Sprintf("%d-%d-%d", name, i, j)
			if h.Keep(h.Context(), declared("p"), refused("p", key, strings.Repeat("x", r.IntN(3000)))) != nil {
				return
			}
			keys = append(keys, key)
		}
		if h.commit("p") != nil {
			return
		}
		l.note(keys)
		select {
		case steps <- struct{}{}:
		default: // all are busy
		}
	}
}

// dropSome edits or drops a dead letter at each step.
func dropSome(h *host, l *ledger, r *mathrand.Rand, steps, ended chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-steps:
		}
		page, err := h.List(h.Context(), "p", spec.DeadLetterFilter{}, 0, 100)
		if err != nil || len(page.DeadLetters) == 0 {
			continue
		}
		one := page.DeadLetters[r.IntN(len(page.DeadLetters))]
		if r.IntN(2) == 0 {
			_, _ = h.Edit(h.Context(), "p", one.ID, &record.Record{Position: record.Position(one.Key),
				Key: record.Raw([]byte(one.Key)), After: record.Raw([]byte("edited"))})
			continue
		}
		l.mu.Lock()
		l.dropped[one.Key] = true
		l.mu.Unlock()
		if _, err := h.Drop(h.Context(), "p", []int64{one.ID}); err != nil {
			h.Errorf("cannot drop: %v", err)
		}
	}
}

func (l *ledger) check(t *testing.T, h *host) {
	t.Helper()
	there := map[string]bool{}
	all := h.list("p", spec.DeadLetterFilter{}, 100)
	for i, one := range all {
		if there[one.Key] || i > 0 && one.ID >= all[i-1].ID {
			t.Errorf("dead letter %d of %s is there twice, or out of order", one.ID, one.Key)
		}
		there[one.Key] = true
	}
	missing, left := []string{}, []string{}
	for key := range l.kept {
		if !there[key] && !l.dropped[key] {
			missing = append(missing, key)
		}
		if there[key] && l.dropped[key] {
			left = append(left, key)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 || len(left) > 0 {
		t.Errorf("of %d that were kept these are lost: %v; of %d that were dropped these are there: %v", len(l.kept),
			missing, len(l.dropped), left)
	}
	if len(l.kept) < 100 || len(l.dropped) < 3 {
		t.Errorf("only %d were kept and %d dropped", len(l.kept), len(l.dropped))
	}
}
