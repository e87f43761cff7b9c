// Package clustertest is the contract of the stores of a cluster, as a test that each store runs.
package clustertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Run tests a store. Each call of open returns another member's connection to the same store, which is empty at first.
func Run(t *testing.T, open func(t *testing.T) cluster.Store) {
	for name, test := range map[string]func(t *testing.T, open func() cluster.Store){
		"compare-and-swap":    compareAndSwap,
		"one of many wins":    oneWins,
		"keys expire":         expire,
		"renewals keep a key": renew,
		"watch":               watch,
	} {
		t.Run(name, func(t *testing.T) { test(t, func() cluster.Store { return open(t) }) })
	}
}

var sequence sync.Mutex
var keys int

// key returns a key that no other test uses.
func key(prefix string) string {
	sequence.Lock()
	defer sequence.Unlock()
	keys++
	return fmt.Sprintf("%sKEY%d", prefix, keys)
}

func write(
	t *testing.T, s cluster.Store, key, value, state string, revision uint64, ttl time.Duration,
) protocol.Outcome {
	t.Helper()
	w := protocol.Write{Entry: protocol.Entry{Key: key, Value: []byte(value), State: []byte(state), Revision: revision},
		TTL: ttl}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		o := s.Write(ctx, w)
		cancel()
		if o.Result != protocol.Busy {
			return o
		}
	}
}

func must(t *testing.T, o protocol.Outcome) uint64 {
	t.Helper()
	if o.Result != protocol.Applied || o.Revision == 0 {
		t.Fatalf("write: %+v, want it applied", o)
	}
	return o.Revision
}

func read(t *testing.T, s cluster.Store, key string) protocol.Entry {
	t.Helper()
	e, err := s.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func compareAndSwap(t *testing.T, open func() cluster.Store) {
	a, b := open(), open()
	k := key(protocol.ClaimPrefix)
	if e := read(t, a, k); e.Value != nil || e.Revision != 0 {
		t.Errorf("entry of a missing key: %+v", e)
	}
	first := must(t, write(t, a, k, `{"a":"ä \" ,"}`, "state \x00\xff", 0, 0))
	if e := read(t, b, k); string(e.Value) != `{"a":"ä \" ,"}` || string(e.State) != "state \x00\xff" ||
		e.Revision != first {
		t.Errorf("entry: %q %q %d, want revision %d", e.Value, e.State, e.Revision, first)
	}
	for _, wrong := range []uint64{0, first + 1000} {
		if o := write(t, b, k, "{}", "", wrong, 0); o.Result != protocol.Conflict || o.Revision != 0 &&
			o.Revision != first {
			t.Errorf("write at revision %d instead of %d: %+v, want a conflict", wrong, first, o)
		}
	}
	second := must(t, write(t, b, k, "{}", "", first, 0))
	if second <= first {
		t.Errorf("revision %d follows %d", second, first)
	}
	if o := write(t, a, k, "{}", "", first, 0); o.Result != protocol.Conflict {
		t.Errorf("write at the revision before: %+v, want a conflict", o)
	}
	if e := read(t, a, k); e.Revision != second || len(e.State) != 0 {
		t.Errorf("entry: %+v, want revision %d and no state", e, second)
	}
}

// oneWins lets members write the same revision at the same time.
func oneWins(t *testing.T, open func() cluster.Store) {
	stores := []cluster.Store{open(), open(), open()}
	k := key(protocol.ClaimPrefix)
	revision := uint64(0)
	for round := range 100 {
		outcomes := make([]protocol.Outcome, len(stores))
		var writing sync.WaitGroup
		for i, s := range stores {
			writing.Go(func() { outcomes[i] = write(t, s, k, fmt.Sprint(round, i), "", revision, 0) })
		}
		writing.Wait()
		won := 0
		for _, o := range outcomes {
			if o.Result == protocol.Applied {
				won++
				revision = o.Revision
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d won: %+v", round, won, outcomes)
		}
	}
}

func expire(t *testing.T, open func() cluster.Store) {
	s := open()
	k := key(protocol.SessionPrefix)
	begin := time.Now()
	first := must(t, write(t, s, k, "{}", "", 0, 2*time.Second))
	wait.For(t, "the key to expire", func() bool { return read(t, s, k).Value == nil })
	if lived := time.Since(begin); lived < 1900*time.Millisecond {
		t.Errorf("the key lived for %v, less than 2s", lived)
	}
	if o := write(t, s, k, "{}", "", first, 2*time.Second); o.Result != protocol.Conflict {
		t.Errorf("write at the revision of a key that expired: %+v, want a conflict", o)
	}
	if again := must(t, write(t, s, k, "{}", "", 0, 2*time.Second)); again <= first {
		t.Errorf("revision %d after %d", again, first)
	}
}

// renew keeps a key for longer than its lifetime by renewing it. If the machine is so slow that a renewal comes too
// late, the key may expire, and renew tries another key.
func renew(t *testing.T, open func() cluster.Store) {
	s := open()
	wait.For(t, "a key to be renewed in time", func() bool { return renewed(t, s, key(protocol.SessionPrefix)) })
}

func renewed(t *testing.T, s cluster.Store, k string) bool {
	t.Helper()
	const lives = 2 * time.Second
	begin := time.Now()
	last, revision := begin, must(t, write(t, s, k, "{}", "", 0, lives))
	for pause := time.NewTicker(20 * time.Millisecond); time.Since(begin) < lives*3/2; <-pause.C {
		now := time.Now()
		o := write(t, s, k, "{}", "", revision, lives)
		if time.Since(last) >= lives {
			return false
		}
		last, revision = now, must(t, o)
	}
	e := read(t, s, k)
	if time.Since(last) >= lives {
		return false
	}
	if e.Revision != revision {
		t.Errorf("entry %+v, want revision %d", e, revision)
	}
	return true
}

func watch(t *testing.T, open func() cluster.Store) {
	writer, watcher := open(), open()
	k, session := key(protocol.ClaimPrefix), key(protocol.SessionPrefix)
	old := must(t, write(t, writer, k, "old", "state", 0, 0))
	old = must(t, write(t, writer, k, "present", "state", old, 0))
	shown, synced := make(chan protocol.Entry, 1000), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- watcher.Watch(ctx, func(e protocol.Entry) { shown <- e }, func() { close(synced) })
	}()
	next := func(k string) protocol.Entry {
		for {
			select {
			case e := <-shown:
				if e.Key == k {
					return e
				}
			case err := <-ended:
				t.Fatalf("the watch ended: %v", err)
			case <-time.After(wait.Limit):
				t.Fatal("the watch shows nothing")
			}
		}
	}
	e := next(k)
	for e.Revision < old { // the replica lags
		e = next(k)
	}
	if string(e.Value) != "present" || e.Revision != old || e.State != nil {
		t.Errorf("the watch begins with %+v, want the present entry without its state", e)
	}
	select {
	case <-synced:
	case <-time.After(wait.Limit):
		t.Fatal("the watch does not report that it is complete")
	}
	revision := must(t, write(t, writer, session, "{}", "", 0, time.Minute))
	if e := next(session); e.Revision != revision {
		t.Errorf("the watch shows %+v, want revision %d", e, revision)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a watch ends without an error")
	}
}
