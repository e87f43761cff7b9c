package backpressure_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// begin begins a Read, and returns a function that reports whether it may run.
func begin(t *testing.T, a *backpressure.Account) (begun func() bool) {
	var done atomic.Bool
	go func() {
		if err := a.Begin(t.Context()); err == nil {
			done.Store(true)
		}
	}()
	synctest.Wait()
	return func() bool { synctest.Wait(); return done.Load() }
}

// read makes a source read a batch of n bytes, which it then holds.
func read(t *testing.T, a *backpressure.Account, n int) {
	t.Helper()
	if !begin(t, a)() {
		t.Fatal("a source may not read")
	}
	if err := a.Reserve(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.End(n)
	a.Add(n)
}

// When memory is used up, all sources but one wait before they take memory for large records, and proceed in the order
// in which they asked.
func TestLargeRecordsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &backpressure.Shared{Bytes: 32 * mib, Each: 512 * kib, Strict: true}
		a, b, c, d := m.Join(0), m.Join(0), m.Join(0), m.Join(0)
		read(t, a, 16*mib)
		read(t, b, 15*mib)
		read(t, c, 16*mib) // beyond the bound
		var order []string
		reserve := func(name string, account *backpressure.Account) {
			go func() {
				if err := errors.Join(account.Begin(t.Context()), account.Reserve(t.Context(), 16*mib)); err == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		reserve("d", d)
		reserve("e", m.Join(0))
		if len(order) > 0 || m.Use().Waiting != 2 {
			t.Fatalf("%v read on, %+v", order, m.Use())
		}
		c.Add(-16 * mib)
		synctest.Wait()
		if len(order) != 1 || order[0] != "d" {
			t.Errorf("%v went on with memory for one", order)
		}
		a.Leave(16 * mib)
		b.Leave(15 * mib)
		synctest.Wait()
		if len(order) != 2 || m.Use().Waiting != 0 {
			t.Errorf("%v went on with memory for both, %+v", order, m.Use())
		}
		c.Leave(0)
		d.Leave(0)
		if use := m.Use(); use.Sources < 16*mib || use.Sources > 17*mib {
			t.Errorf("with one source left %d bytes are used", use.Sources)
		}
	})
}

// A source of small records keeps reading, in smaller batches, although others hold all memory.
func TestSmallRecordsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &backpressure.Shared{Bytes: 32 * mib, Each: 512 * kib, Strict: true}
		for range 3 {
			read(t, m.Join(0), 16*mib)
		}
		small := m.Join(0)
		for range 100 {
			if !begin(t, small)() {
				t.Fatal("it waits")
			}
			n := small.Batch()
			if n > 512*kib || n < 4*kib {
				t.Fatalf("it may read batches of %d bytes", n)
			}
			small.End(n)
			small.Add(n)
			small.Add(-n)
		}
		for range 10_000 { // many sources get smaller parts
			m.Join(0)
		}
		if !begin(t, small)() || small.Batch() != 4*kib {
			t.Errorf("among many it may read batches of %d bytes", small.Batch())
		}
	})
}

// The reservation of a source that did not ask for it goes to others once the source is idle, and a source that read a
// large batch waits the next time.
func TestIdleSourcesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &backpressure.Shared{Bytes: 20 * mib, Each: 512 * kib, Strict: true}
		a, b, c := m.Join(16*mib), m.Join(16*mib), m.Join(16*mib)
		if !begin(t, a)() || !begin(t, b)() { // b exceeds the bound
			t.Fatal("they wait with memory free")
		}
		third := begin(t, c)
		if third() {
			t.Fatal("memory for one was given to three")
		}
		time.Sleep(time.Second)
		if !third() {
			t.Fatal("it waits for sources that are idle")
		}
		a.End(16 * mib)
		a.Add(16 * mib)
		c.End(16 * mib)
		c.Add(16 * mib)
		if err := m.Join(0).Reserve(t.Context(), 16*mib); err != nil { // beyond the bound
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Reserve(ctx, 16*mib) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || m.Use().Waiting != 0 {
			t.Errorf("%v, %+v", err, m.Use())
		}
		for _, one := range []*backpressure.Account{a, c} {
			one.Leave(16 * mib)
		}
		if b.Leave(0); m.Use().Sources != 16*mib {
			t.Errorf("with one source left %+v", m.Use())
		}
	})
}

// A source that waits because its own part is full proceeds once that has space, even if another one waits before it
// for more than is free.
func TestOwnPartIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &backpressure.Shared{Bytes: 32 * mib, Each: 512 * kib, Strict: true}
		dead, beyond, large, small := m.Join(0), m.Join(0), m.Join(0), m.Join(0)
		read(t, small, 256*kib)
		read(t, small, 256*kib) // its whole part
		read(t, dead, 31*mib)
		read(t, beyond, 16*mib)
		go func() { _ = errors.Join(large.Begin(t.Context()), large.Reserve(t.Context(), 16*mib)) }()
		synctest.Wait()
		begun := begin(t, small)
		if begun() || m.Use().Waiting != 2 {
			t.Fatalf("it does not wait: %+v", m.Use())
		}
		small.Add(-512 * kib)
		if !begun() || m.Use().Waiting != 1 {
			t.Errorf("it waits for others, with nothing in its own part: %+v", m.Use())
		}
		small.Leave(0)
		dead.Leave(31 * mib)
		beyond.Leave(16 * mib)
		synctest.Wait()
		large.Leave(0)
		if u := m.Use(); u != (backpressure.Use{Bytes: 32 * mib}) {
			t.Errorf("left: %+v", u)
		}
	})
}
