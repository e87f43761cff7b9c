package slot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/slot"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
)

// fakeChain records its calls. Process moves its deadline on.
type fakeChain struct {
	connector.Chain
	calls    []string
	deadline time.Time
	next     []time.Time // deadlines after the calls of Process to come
	observes bool
	holding  int
	fail     error
}

func (c *fakeChain) Process(_ context.Context, token any, records []record.Record) (connector.Outcome, error) {
	c.calls = append(c.calls, fmt.Sprint("process ", token, " ", len(records)))
	if c.deadline = (time.Time{}); len(c.next) > 0 {
		c.deadline, c.next = c.next[0], c.next[1:]
	}
	return connector.Outcome{Records: records}, c.fail
}

func (c *fakeChain) Settled(_ context.Context, token any) error {
	c.calls = append(c.calls, fmt.Sprint("settled ", token))
	return c.fail
}

func (c *fakeChain) Teardown(context.Context) error {
	c.calls = append(c.calls, "teardown")
	return c.fail
}

func (c *fakeChain) Deadline() time.Time { return c.deadline }
func (c *fakeChain) Observes() bool      { return c.observes }
func (c *fakeChain) Holding() int        { return c.holding }

func woken(s *slot.Slot) bool {
	select {
	case <-s.Wake:
		return true
	default:
		return false
	}
}

func locked[T any](s *slot.Slot, f func() (T, error)) (T, error) {
	s.Lock()
	defer s.Unlock()
	return f()
}

func TestInstall(t *testing.T) {
	s := slot.New("p")
	if s.Active() || s.Install(nil) != nil || !s.Exchangeable() {
		t.Error("a new slot has a chain")
	}
	first, second := &fakeChain{}, &fakeChain{}
	if former := s.Install(first); former != nil || !s.Active() || s.Waits() {
		t.Errorf("former %v, active %v, waits %v", former, s.Active(), s.Waits())
	}
	if former := s.Install(second); former != connector.Chain(first) {
		t.Errorf("former is %v", former)
	}
	if s.Install(nil); s.Active() {
		t.Error("active without a chain")
	}
}

func TestExchangeable(t *testing.T) {
	for name, c := range map[string]struct {
		chain *fakeChain
		want  bool
	}{
		"idle":            {&fakeChain{}, true},
		"holding":         {&fakeChain{holding: 1}, false},
		"observing":       {&fakeChain{observes: true}, false},
		"with a deadline": {&fakeChain{deadline: time.Now().Add(time.Hour)}, false},
	} {
		s := slot.New("p")
		s.Install(c.chain)
		if got := s.Exchangeable(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		s.Close()
	}
}

// The slot wakes its goroutine at the deadline of the chain, wherever that moves.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, begin := t.Context(), time.Now()
		c := &fakeChain{next: []time.Time{begin.Add(time.Minute), begin.Add(2 * time.Minute)}}
		s := slot.New("p")
		s.Install(c)
		process := func(token any, n int) {
			t.Helper()
			if _, err := locked(s, func() (connector.Outcome, error) { return s.Process(ctx, token, make([]record.Record, n)) }); err != nil {
				t.Fatal(err)
			}
		}
		process("a", 1)
		process("b", 2) // moves the deadline from 1 to 2 minutes
		time.Sleep(2*time.Minute - 1)
		if synctest.Wait(); woken(s) || !s.Waits() {
			t.Error("woken before the deadline")
		}
		attend := func() (connector.Outcome, error) { return s.Attend(ctx) }
		if _, err := locked(s, attend); err != nil || len(c.calls) != 2 {
			t.Errorf("calls before the deadline: %q, error %v", c.calls, err)
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); !woken(s) {
			t.Error("not woken at the deadline")
		}
		if _, err := locked(s, attend); err != nil || s.Waits() {
			t.Errorf("error %v, waits %v", err, s.Waits())
		}
		if want := []string{"process a 1", "process b 2", "process <nil> 0"}; !slices.Equal(c.calls, want) {
			t.Errorf("calls %q, want %q", c.calls, want)
		}
	})
}

// A chain that could not emit everything at its deadline keeps it, and is attended again.
func TestDeadlineThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Minute)
		s := slot.New("p")
		s.Install(&fakeChain{deadline: due, next: []time.Time{due}})
		time.Sleep(time.Minute)
		if synctest.Wait(); !woken(s) {
			t.Error("not woken at the deadline")
		}
		if _, err := locked(s, func() (connector.Outcome, error) { return s.Attend(t.Context()) }); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); !woken(s) || !s.Waits() {
			t.Error("not woken again")
		}
	})
}

// The chain learns which batches are settled, each once, at the latest when it is torn down.
func TestSettled(t *testing.T) {
	s, c := slot.New("p"), &fakeChain{observes: true}
	s.Install(c)
	s.NoteSettled("a")
	s.NoteSettled("b")
	if !woken(s) {
		t.Error("not woken")
	}
	if _, err := locked(s, func() (connector.Outcome, error) { return s.Attend(t.Context()) }); err != nil {
		t.Error(err)
	}
	s.NoteSettled("c")
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"settled a", "settled b", "settled c", "teardown"}; !slices.Equal(c.calls, want) {
		t.Errorf("calls %q, want %q", c.calls, want)
	}
}

// Nothing is asked of a broken chain but to end.
func TestBrokenChain(t *testing.T) {
	broken := errors.New("broken")
	s, c := slot.New("p:proc"), &fakeChain{fail: broken}
	s.Install(c)
	_, err := locked(s, func() (connector.Outcome, error) { return s.Process(t.Context(), "a", nil) })
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "cannot run the processors of p:proc: ") {
		t.Errorf("error is %v", err)
	}
	s.NoteSettled("a")
	if err := s.Teardown(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if want := []string{"process a 0", "teardown"}; !slices.Equal(c.calls, want) {
		t.Errorf("calls %q, want %q", c.calls, want)
	}
}

// A chain that is abandoned in a call, which keeps the slot locked, is not torn down.
func TestAbandonedChain(t *testing.T) {
	s, c := slot.New("p"), &fakeChain{}
	s.Install(c)
	s.Lock()
	if err := s.Teardown(t.Context()); err != nil || len(c.calls) > 0 {
		t.Errorf("calls %q, error %v", c.calls, err)
	}
	s.Unlock()
}

// One goroutine tends a slot, and is woken to end when the slot is closed.
func TestTend(t *testing.T) {
	s := slot.New("p")
	got := []bool{s.Tend(), s.Tend()}
	s.Close()
	if want := []bool{true, false}; !slices.Equal(got, want) || !s.Closed() || !woken(s) {
		t.Errorf("tend %v, closed %v", got, s.Closed())
	}
	closed := slot.New("q")
	if closed.Close(); closed.Tend() {
		t.Error("a closed slot is tended")
	}
}
