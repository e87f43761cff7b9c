package deadletters_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/deadletters"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) {
	deadletters.Hasten()
	os.Exit(m.Run())
}

// memory is an in-memory store of a cluster with faults.
type memory struct {
	clustertest.Memory
	mu    sync.Mutex
	down  bool             // guarded by mu: there are no answers
	tried int              // guarded by mu: number of accesses without an answer
	fault func() fault     // guarded by mu: fault of the next write; nil for none
	late  []protocol.Write // guarded by mu: to be applied later
}

// fault is the fate of a write.
type fault int

const (
	fine fault = iota
	lostAnswer
	lostWrite
	lateWrite
)

func (m *memory) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	var f fault
	if m.fault != nil {
		f = m.fault()
	}
	if f == lateWrite {
		m.late = append(m.late, w)
		return protocol.Outcome{Result: protocol.Unknown}
	}
	if f == fine {
		for _, l := range m.late {
			m.Memory.Write(ctx, l)
		}
		m.late = nil
	}
	if m.down || f == lostWrite {
		m.tried++
		return protocol.Outcome{Result: protocol.Unknown}
	}
	o := m.Memory.Write(ctx, w)
	if f == lostAnswer {
		return protocol.Outcome{Result: protocol.Unknown}
	}
	return o
}

func (m *memory) Read(ctx context.Context, key string) (protocol.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		m.tried++
		return protocol.Entry{}, errors.New("out of reach")
	}
	return m.Memory.Read(ctx, key)
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

type host struct {
	*testing.T
	*deadletters.Store
	local    *deadletter.Store
	store    *memory
	mu       sync.Mutex
	epoch    map[string]uint64 // guarded by mu: by claim that the member has
	saved    []spec.Checkpoint // guarded by mu
	replicas func()
}

func newHost(t *testing.T, m *memory, limits deadletter.Limits) *host {
	t.Helper()
	return newMember(t, "", m, m, limits)
}

// newMember returns a member with this name and store, which is a connection to m.
func newMember(t *testing.T, name string, m *memory, store cluster.Store, limits deadletter.Limits) *host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	local := &deadletter.Store{Path: filepath.Join(t.TempDir(), "dead-letters"), Limits: limits, Log: log}
	t.Cleanup(func() { _ = local.Close() })
	h := &host{T: t, local: local, store: m, epoch: map[string]uint64{}}
	h.Store = deadletters.New(deadletters.Needs{Local: local, Member: name, Store: store, Log: log, Owner: h.owner})
	h.Clustered, h.Counts, h.Replicas = func(id string) bool { return id != "local" }, h.counts, h
	m.Follow(func(e protocol.Entry) { h.Note(e) })
	return h
}

func (h *host) owner(pipeline string) (string, uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for claim, epoch := range h.epoch {
		if id, _ := protocol.InstanceOf(claim); id == pipeline {
			return claim, epoch, true
		}
	}
	return "", 0, false
}

// counts makes the member count the claims that it owns.
func (h *host) counts(context.Context) func(string) bool {
	return func(claim string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.epoch[claim] != 0
	}
}

// owns gives the member a claim; an epoch of 0 takes it away.
func (h *host) owns(claim string, epoch uint64) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch[claim] = epoch; epoch == 0 {
		delete(h.epoch, claim)
	}
	return h
}

// Replicate records positions that would be saved in claims.
func (h *host) Replicate(all []spec.Checkpoint, done func(string, error)) {
	if h.replicas != nil {
		h.replicas()
	}
	h.mu.Lock()
	h.saved = append(h.saved, all...)
	h.mu.Unlock()
	done(all[0].PipelineID, nil)
}

func declared(pipeline string) *spec.Declaration {
	p := spec.Pipeline{ID: pipeline, Connectors: []spec.Connector{{ID: "in", Type: spec.TypeSource, Plugin: "p"},
		{ID: "out", Type: spec.TypeDestination, Plugin: "p"}}}
	return &spec.Declaration{Pipeline: p, Generation: 1, Digest: "d"}
}

func refused(pipeline, key, payload string) *engine.DeadLetter {
	return &engine.DeadLetter{
		SourceID: pipeline + ":in", RefusedBy: pipeline + ":out", Destination: true, Entry: pipeline + ":out",
		Err: errors.New("no <" + key + ">"),
		Record: record.Record{Position: record.Position(key), Operation: record.OperationCreate,
			Key: record.Raw([]byte(key)), After: record.Raw([]byte(payload))},
	}
}

// keep keeps refused records.
func (h *host) keep(pipeline string, keys ...string) {
	h.Helper()
	for _, key := range keys {
		must(h.T, h.Keep(h.Context(), declared(pipeline), refused(pipeline, key, "payload")))
	}
}

// commit saves a position, and returns the outcome.
func (h *host) commit(pipeline string) error {
	outcome := make(chan error, 1)
	h.Store.Replicate([]spec.Checkpoint{{PipelineID: pipeline}}, func(_ string, err error) { outcome <- err })
	return <-outcome
}

// list returns all dead letters, newest first, read in pages.
func (h *host) list(pipeline string, f spec.DeadLetterFilter, limit int) (all []spec.DeadLetter) {
	h.Helper()
	for before := int64(0); ; {
		page, err := h.List(h.Context(), pipeline, f, before, limit)
		must(h.T, err)
		all = append(all, page.DeadLetters...)
		if page.Next == 0 {
			return all
		}
		if before > 0 && page.Next >= before {
			h.Fatalf("the page behind %d goes on at %d", before, page.Next)
		}
		before = page.Next
	}
}

func (h *host) keys(pipeline string) (keys []string) {
	h.Helper()
	for _, l := range h.list(pipeline, spec.DeadLetterFilter{}, 100) {
		keys = append(keys, l.Key)
	}
	return keys
}

func (h *host) must(pipeline string, want ...string) {
	h.Helper()
	if got := h.keys(pipeline); !slices.Equal(got, want) {
		h.Errorf("there are %v, want %v", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryMemberHasThem lists, shows, edits and drops dead letters on one member that another member refused. They are
// in the store before a position covers them.
func TestEveryMemberHasThem(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	a.replicas = func() { b.must("p", "3", "2", "1") }
	a.keep("p", "1", "2", "3")
	must(t, a.commit("p"))
	if len(a.saved) != 1 {
		t.Fatalf("%d positions were saved", len(a.saved))
	}
	all := b.list("p", spec.DeadLetterFilter{Error: "NO <2>", Key: "2", Stage: spec.RefusedByDestination}, 10)
	if len(all) != 1 || all[0].Key != "2" || all[0].Record != nil || all[0].ID != 2 || all[0].Times != 1 ||
		all[0].RefusedBy != "p:out" {
		t.Fatalf("found %+v", all)
	}
	one, err := b.Get(t.Context(), "p", 2)
	must(t, err)
	if one.Record == nil || len(one.Refusals) != 1 || one.Refusals[0].Error != "no <2>" || one.Digest != "d" {
		t.Errorf("dead letter 2 is %+v", one)
	}
	edited := record.Record{Position: record.Position("2"), Key: record.Raw([]byte("mended"))}
	one, err = b.Edit(t.Context(), "p", 2, &edited)
	must(t, err)
	if !one.Edited || one.Key != "mended" {
		t.Errorf("edited: %+v", one)
	}
	a.must("p", "3", "mended", "1")
	if n, err := b.Drop(t.Context(), "p", []int64{1, 99}); n != 1 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	if _, err := a.Get(t.Context(), "p", 1); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("what was dropped: %v", err)
	}
	if totals, err := a.Totals(t.Context()); err != nil || len(totals) != 1 || totals[0].Count != 2 {
		t.Errorf("totals %+v %v", totals, err)
	}
	if n, err := b.DropAll(t.Context(), "p", spec.DeadLetterFilter{Key: "mended"}); n != 1 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	a.must("p", "3")
	if found, err := b.Forget(t.Context(), "p"); !found || err != nil {
		t.Errorf("forgot %v: %v", found, err)
	}
	a.must("p")
}

// TestFormerOwner checks that a member that lost the claim writes no more, even before the next owner has written.
func TestFormerOwner(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{}).owns("p", 8)
	a.keep("p", "1")
	must(t, a.commit("p"))
	b.keep("p", "2")
	must(t, b.commit("p"))
	a.keep("p", "late") // it has not noticed yet
	if err := a.commit("p"); !errors.Is(err, cluster.ErrNotOwner) {
		t.Errorf("the former owner's commit: %v", err)
	}
	if len(a.saved) != 1 {
		t.Errorf("the former owner saved %d positions", len(a.saved))
	}
	b.must("p", "2", "1")
	a.owns("p", 0)
	if err := a.Keep(t.Context(), declared("p"), refused("p", "x", "")); !errors.Is(err, cluster.ErrNotOwner) {
		t.Errorf("without a claim: %v", err)
	}
	a.owns("p", 9) // records pending under the former claim no longer belong to it
	a.keep("p", "3")
	must(t, a.commit("p"))
	b.must("p", "3", "2", "1")
	a.keep("p", "lost")
	a.owns("p", 10)
	must(t, a.commit("p"))
	b.must("p", "3", "2", "1")
}

// TestUnreachable checks that positions wait while the store is away, and fail when the claim is lost meanwhile.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a := newHost(t, m, deadletter.Limits{}).owns("p", 7)
	for _, lost := range []bool{false, true} {
		m.set(func() { m.down, m.tried = true, 0 })
		a.keep("p", fmt.Sprint(lost))
		outcome := make(chan error, 1)
		go func() { outcome <- a.commit("p") }()
		wait.For(t, "the store to be tried again", func() (again bool) {
			m.set(func() { again = m.tried > 2 })
			return again || len(outcome) > 0
		})
		select {
		case err := <-outcome:
			t.Fatalf("a position is saved while its dead letter cannot be: %v", err)
		default:
		}
		if lost {
			a.owns("p", 0)
			if err := <-outcome; !errors.Is(err, cluster.ErrNotOwner) {
				t.Errorf("the claim is lost: %v", err)
			}
			m.set(func() { m.down = false })
			break
		}
		m.set(func() { m.down = false })
		must(t, <-outcome)
	}
	a.must("p", "false")
}

// TestWithoutPosition checks that a record that stopped its pipeline is written although no position covers it.
func TestWithoutPosition(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Store.Run(ctx) }()
	a.keep("p", "1")
	wait.For(t, "the dead letter", func() bool { return slices.Equal(b.keys("p"), []string{"1"}) })
	cancel()
	<-ended
}

// TestRefusedAgain checks that a record that is refused again is the same dead letter, also for the next owner.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{}).owns("p", 8)
	a.keep("p", "1", "2", "1")
	must(t, a.commit("p"))
	a.keep("p", "1")
	for i := range 300 { // so many that they are in a segment
		a.keep("p", fmt.Sprint("more", i))
	}
	must(t, a.commit("p"))
	b.keep("p", "1", "new", "1")
	must(t, b.commit("p"))
	all := b.list("p", spec.DeadLetterFilter{}, 100)
	if len(all) != 303 || all[302].Key != "1" || all[302].Times != 5 || all[301].Times != 1 || all[0].Key != "new" {
		t.Errorf("%d dead letters, the first %+v, the last %+v", len(all), all[len(all)-1], all[0])
	}
	one, err := b.Get(t.Context(), "p", 1)
	must(t, err)
	if len(one.Refusals) != 5 || one.LastTime.Equal(one.Time) {
		t.Errorf("it was refused %d times, last at %v after %v", len(one.Refusals), one.LastTime, one.Time)
	}
	b.owns("p", 0)
	if n, err := b.Drop(t.Context(), "p", []int64{1}); n != 1 || err != nil {
		t.Fatalf("dropped %d: %v", n, err)
	}
	a.owns("p", 9).keep("p", "1")
	must(t, a.commit("p"))
	if all := b.list("p", spec.DeadLetterFilter{Key: "1"}, 500); all[0].Key != "1" || all[0].Times != 1 ||
		all[0].ID != 304 {
		t.Errorf("what was dropped and comes again is %+v", all[0])
	}
}

// TestManyAndLarge writes more than fits into one message of a store and reads it in pages. Records that no message can
// hold stay on the host.
func TestManyAndLarge(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	random := func(n int) string {
		text := make([]byte, n)
		_, _ = rand.Read(text)
		return string(text)
	}
	const most = 60
	for i := range most {
		must(t, a.Keep(t.Context(), declared("p"), refused("p", fmt.Sprint(i), random(10_000))))
		if i%25 == 0 {
			must(t, a.commit("p"))
		}
	}
	must(t, a.Keep(t.Context(), declared("p"), refused("p", "large", random(500_000))))
	must(t, a.Keep(t.Context(), declared("p"), refused("p", "too large", random(1<<20))))
	must(t, a.commit("p"))
	largest := 0
	for _, e := range m.Written() {
		largest = max(largest, len(e.State))
	}
	if largest > deadletters.MaxPacked || largest < 300_000 || len(m.All()) > 10 {
		t.Errorf("%d keys have at most %d bytes", len(m.All()), largest)
	}
	all := b.list("p", spec.DeadLetterFilter{}, 25)
	if len(all) != most+1 || all[0].Key != "large" {
		t.Fatalf("%d dead letters", len(all))
	}
	for i, l := range all {
		if l.ID != int64(most+1-i) || i > 0 && !l.Time.Before(all[i-1].Time) {
			t.Fatalf("dead letter %d in place %d", l.ID, i)
		}
	}
	if some := b.list("p", spec.DeadLetterFilter{Since: all[5].Time, Until: all[1].Time}, 25); len(some) != 4 ||
		some[0].ID != all[2].ID {
		t.Errorf("%d of a time", len(some))
	}
	here := a.list("p", spec.DeadLetterFilter{}, 25)
	if len(here) != most+2 || here[0].Key != "too large" || here[0].ID != deadletters.HostIDs+1 {
		t.Fatalf("%d dead letters on the host that has the one that is too large, first %d", len(here), here[0].ID)
	}
	if one, err := a.Get(t.Context(), "p", here[0].ID); err != nil || one.ID != here[0].ID || one.Record == nil {
		t.Errorf("the one that is too large: %v", err)
	}
	if n, err := a.Drop(t.Context(), "p", []int64{here[0].ID, 1, most}); n != 3 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	if n, err := a.DropAll(t.Context(), "p", spec.DeadLetterFilter{}); n != most-1 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	b.must("p")
}

// TestDropsWhatTakesLong drops more dead letters than fit into the time of a request, in a store that takes more than a
// second for each write.
func TestDropsWhatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		a := newHost(t, m, deadletter.Limits{}).owns("p", 7)
		const most = 24
		for i := range most {
			large := make([]byte, 100_000)
			_, _ = rand.Read(large)
			must(t, a.Keep(t.Context(), declared("p"), refused("p", fmt.Sprint(i), string(large))))
			if i%3 == 2 {
				must(t, a.commit("p"))
			}
		}
		writes := 0
		m.set(func() { m.fault = func() fault { writes++; time.Sleep(1500 * time.Millisecond); return fine } })
		if n, err := a.DropAll(t.Context(), "p", spec.DeadLetterFilter{}); n != most || err != nil || writes < 8 {
			t.Errorf("dropped %d with %d writes: %v", n, writes, err)
		}
	})
}

// TestBounds drops the oldest dead letters of the pipeline with the most.
func TestBounds(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{Count: 500}).owns("p", 7).owns("q", 8),
		newHost(t, m, deadletter.Limits{Count: 500})
	a.keep("q", "old")
	must(t, a.commit("q"))
	for i := range 900 {
		a.keep("p", fmt.Sprint(i))
		if i%100 == 99 {
			must(t, a.commit("p"))
		}
	}
	all := b.list("p", spec.DeadLetterFilter{}, 100)
	if len(all) != 499 || all[0].Key != "899" || all[498].Key != "401" {
		t.Errorf("%d are left, up to %s", len(all), all[len(all)-1].Key)
	}
	b.must("q", "old")
	totals, err := b.Totals(t.Context())
	must(t, err)
	if len(totals) != 2 || totals[0].Count != 499 || totals[0].Dropped != 401 {
		t.Errorf("totals %+v", totals)
	}
	live := 0
	for _, e := range m.All() {
		if e.State != nil {
			live++
		}
	}
	if live >= len(m.All())-2 {
		t.Errorf("%d keys have dead letters, of %d", live, len(m.All()))
	}
}

// hooked is a connection to a store that calls before with the key of each write, first.
type hooked struct {
	*memory
	before func(key string)
}

func (s *hooked) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	s.before(w.Key)
	return s.memory.Write(ctx, w)
}

// TestTwoMembersDrop lets a member drop the excess while another one is about to drop it: only the excess is dropped,
// and every dropped dead letter is counted.
func TestTwoMembersDrop(t *testing.T) {
	t.Parallel()
	for _, before := range []string{protocol.DeadLettersKey("p"), protocol.SegmentKey("p", 0),
		protocol.SegmentKey("p", 1)} {
		m := &memory{}
		hook := &hooked{memory: m, before: func(string) {}}
		a, b := newMember(t, "a", m, hook, deadletter.Limits{}).owns("p", 7),
			newHost(t, m, deadletter.Limits{Count: 850})
		for i := range 1000 {
			a.keep("p", fmt.Sprint(i))
			if i%100 == 99 {
				must(t, a.commit("p"))
			}
		}
		a.local.Limits.Count = 850
		met := false
		hook.before = func(key string) {
			if key == before && !met {
				met = true
				b.Tidy(t.Context())
			}
		}
		a.Tidy(t.Context())
		all := a.list("p", spec.DeadLetterFilter{}, 100)
		totals, err := b.Totals(t.Context())
		must(t, err)
		if !met || len(all) != 850 || all[849].Key != "150" || totals[0].Count != 850 || totals[0].Dropped != 150 {
			t.Errorf("before the write of %s (%v) the other member drops, too: %d are left, totals %+v", before, met,
				len(all), totals)
		}
	}
}

// TestExpiredSegment drops the excess on a member that never saw a segment, which was empty and has expired.
func TestExpiredSegment(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a := newHost(t, m, deadletter.Limits{}).owns("p", 7)
	for i := range 300 {
		a.keep("p", fmt.Sprint(i))
		if i%100 == 99 {
			must(t, a.commit("p"))
		}
	}
	var ids []int64
	for _, l := range a.list("p", spec.DeadLetterFilter{}, 100)[200:] {
		ids = append(ids, l.ID)
	}
	if n, err := a.Drop(t.Context(), "p", ids); err != nil || n != 100 {
		t.Fatalf("dropped %d: %v", n, err)
	}
	m.Expire(protocol.SegmentKey("p", 0))
	b := newHost(t, m, deadletter.Limits{Count: 150})
	b.Tidy(t.Context())
	totals, err := b.Totals(t.Context())
	must(t, err)
	if all := b.list("p", spec.DeadLetterFilter{}, 100); len(all) != 150 || totals[0].Count != 150 ||
		totals[0].Dropped != 50 {
		t.Errorf("%d are left, totals %+v", len(all), totals)
	}
}
