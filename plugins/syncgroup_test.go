package plugins_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins"
)

type member struct {
	device uint64
	takes  time.Duration
	err    error
	synced int
}

func (m *member) Device() uint64 { return m.device }
func (m *member) Sync() error {
	time.Sleep(m.takes)
	m.synced++
	return m.err
}

func TestSyncsForWhoeverWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var got []string
		done := func(pipelines []string, err error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(time.Since(start), pipelines, err))
		}
		g := &plugins.SyncGroup{}
		g.Sync([]string{"a"}, done)

		slow, quick, bad := &member{device: 1, takes: time.Second}, &member{device: 2, takes: time.Millisecond},
			&member{device: 2, err: errors.New("bad")}
		g.Defer("a:one", slow)
		g.Defer("a:b:two", quick) // of the pipeline a:b
		g.Defer("c:one", quick)
		g.Defer("c:two", slow)
		g.Defer("c:two", slow)
		g.Defer("d:one", bad)
		g.Defer("other:one", bad)
		g.Sync([]string{"a", "a:b", "c", "d", "idle"}, done)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(got)
		want := []string{"0s [a] <nil>", "0s [idle] <nil>", "1ms [a:b] <nil>", "1ms [d] bad", "1s [a c] <nil>"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if slow.synced != 1 || quick.synced != 1 || bad.synced != 1 {
			t.Errorf("synced %d, %d and %d times, want once each", slow.synced, quick.synced, bad.synced)
		}
		got = nil
		g.Sync([]string{"a", "c"}, done)
		if len(got) != 1 || slow.synced != 1 {
			t.Errorf("got %q, and synced %d times what was not written to again", got, slow.synced)
		}
	})
}

// A call waits for a sync in progress, which may hold records of another source of the pipeline.
func TestWaitsForWhatIsBeingSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var got []string
		call := func(name string) func([]string, error) {
			return func(pipelines []string, err error) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(name, " ", time.Since(start), pipelines, err))
			}
		}
		g := &plugins.SyncGroup{}
		slow, quick, bad := &member{device: 1, takes: time.Second}, &member{device: 2, takes: time.Millisecond},
			&member{device: 3, takes: time.Second, err: errors.New("bad")}
		g.Defer("a:one", slow)
		g.Defer("b:one", bad)
		g.Sync([]string{"a", "b"}, call("first"))
		g.Defer("a:two", quick)
		g.Sync([]string{"a", "b", "c"}, call("second"))
		g.Sync([]string{"a", "b"}, call("third"))
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(got)
		want := []string{
			"first 1s [a] <nil>", "first 1s [b] bad",
			"second 0s [c] <nil>", "second 1s [a] <nil>", "second 1s [b] bad",
			"third 1s [a] <nil>", "third 1s [b] bad",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if slow.synced != 1 || quick.synced != 1 || bad.synced != 1 {
			t.Errorf("synced %d, %d and %d times, want once each", slow.synced, quick.synced, bad.synced)
		}
		got = nil
		if g.Sync([]string{"a", "b"}, call("later")); len(got) != 1 {
			t.Errorf("got %q where nothing is to be synced", got)
		}
		got = nil
		g.Defer("b:one", bad)
		g.Sync([]string{"b"}, func(pipelines []string, err error) {
			call("first")(pipelines, err)
			g.Sync([]string{"b"}, call("as it is reported"))
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"first 1m1s [b] bad", "as it is reported 1m1s [b] bad"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
