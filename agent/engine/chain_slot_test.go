package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
)

// fakeChain records its calls. Process moves its deadline.
type fakeChain struct {
	connector.Chain
	calls    []string
	deadline time.Time
	next     []time.Time // deadlines after the next calls of Process
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

func (c *fakeChain) Committed(_ context.Context, tokens []any) error {
	c.calls = append(c.calls, fmt.Sprint("committed ", tokens))
	return c.fail
}

func (c *fakeChain) Teardown(context.Context) error {
	c.calls = append(c.calls, "teardown")
	return c.fail
}

func (c *fakeChain) Deadline() time.Time { return c.deadline }
func (c *fakeChain) Observes() bool      { return c.observes }
func (c *fakeChain) Holding() int        { return c.holding }

func woken(s *chainSlot) bool {
	select {
	case <-s.Wake:
		return true
	default:
		return false
	}
}

func locked[T any](s *chainSlot, f func() (T, error)) (T, error) {
	s.Lock()
	defer s.Unlock()
	return f()
}

func TestInstall(t *testing.T) {
	s := newChainSlot("p")
	if former, ok := s.Install(nil); s.Active() || former != nil || !ok || s.Chain() != nil {
		t.Error("a new slot has a chain")
	}
	first, second := &fakeChain{}, &fakeChain{}
	if former, ok := s.Install(first); former != nil || !ok || !s.Active() || s.Waits() ||
		s.Chain() != connector.Chain(first) {
		t.Errorf("former %v, installed %v, active %v, waits %v", former, ok, s.Active(), s.Waits())
	}
	if former, ok := s.Install(second); former != connector.Chain(first) || !ok {
		t.Errorf("former is %v, installed %v", former, ok)
	}
	if s.Install(nil); s.Active() {
		t.Error("active without a chain")
	}
}

// Records that a chain holds are not lost: the slot keeps the chain.
func TestAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		chain         *fakeChain
		another, none bool
	}{
		"idle":            {&fakeChain{}, true, true},
		"holding":         {&fakeChain{holding: 1}, false, false},
		"observing":       {&fakeChain{observes: true}, false, true},
		"with a deadline": {&fakeChain{deadline: time.Now().Add(time.Hour)}, false, false},
	} {
		for next, want := range map[connector.Chain]bool{&fakeChain{}: c.another, nil: c.none} {
			s := newChainSlot("p")
			s.Install(c.chain)
			accepts := s.Accepts(next)
			former, ok := s.Install(next)
			if accepts != want || ok != want || (former != nil) != want ||
				(s.Chain() == connector.Chain(c.chain)) == want {
				t.Errorf("%s: accepts %v: %v, installed %v, want %v", name, next, accepts, ok, want)
			}
			s.Close()
		}
	}
}

// successor is a chain that takes over from others.
type successor struct {
	fakeChain
	can bool
}

func (c *successor) CanSucceed(connector.Chain) bool { return c.can }

func (c *successor) Succeed(former connector.Chain) {
	f := former.(*fakeChain)
	c.holding, c.deadline = f.holding, f.deadline
	c.calls = append(c.calls, "succeed")
}

func TestSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainSlot("p")
		held := &fakeChain{holding: 1, observes: true, deadline: time.Now().Add(time.Minute)}
		s.Install(held)
		no, yes := &successor{}, &successor{can: true}
		if _, ok := s.Install(no); ok || len(no.calls) > 0 {
			t.Errorf("installed %v, calls %q", ok, no.calls)
		}
		if former, ok := s.Install(yes); !ok || former != connector.Chain(held) ||
			!slices.Equal(yes.calls, []string{"succeed"}) {
			t.Errorf("installed %v, former %v, calls %q", ok, former, yes.calls)
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); !woken(s) {
			t.Error("not woken at the deadline that was taken over")
		}
	})
}

// The slot wakes its goroutine at the deadline of the chain, even after the deadline moves.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, begin := t.Context(), time.Now()
		c := &fakeChain{next: []time.Time{begin.Add(time.Minute), begin.Add(2 * time.Minute)}}
		s := newChainSlot("p")
		s.Install(c)
		process := func(token any, n int) {
			t.Helper()
			if _, err := locked(s, func() (connector.Outcome, error) {
				return s.Process(ctx, token, make([]record.Record, n))
			}); err != nil {
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
		s := newChainSlot("p")
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

// The chain learns which batches are committed, each once, at the latest when it is torn down. A deadline comes after
// the remaining time, even if the clock was set back meanwhile. Time in a synctest bubble has no monotonic reading.
func TestDeadlineOfAClockThatIsSetBack(t *testing.T) {
	chain := &fakeChain{next: []time.Time{fiftyYearsAhead(time.Now().Add(time.Millisecond))}}
	s := newChainSlot("p")
	s.Install(chain)
	if _, err := locked(s, func() (connector.Outcome, error) { return s.Process(t.Context(), 1, nil) }); err != nil {
		t.Fatal(err)
	}
	<-s.Wake
	if _, err := locked(s, func() (connector.Outcome, error) { return s.Attend(t.Context()) }); err != nil ||
		len(chain.calls) != 2 {
		t.Errorf("at the deadline: error %v, calls %v", err, chain.calls)
	}
}

// fiftyYearsAhead returns t as read from a clock fifty years ahead of the actual one: only the monotonic reading is
// the same. The seconds are bits 30 to 62 of the first word.
func fiftyYearsAhead(t time.Time) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += 50 * 365 * 24 * 3600 << 30
	return t
}

func TestCommitted(t *testing.T) {
	s, c := newChainSlot("p"), &fakeChain{observes: true}
	s.Install(c)
	s.NoteCommitted("a")
	s.NoteCommitted("b")
	if !woken(s) {
		t.Error("not woken")
	}
	if _, err := locked(s, func() (connector.Outcome, error) { return s.Attend(t.Context()) }); err != nil {
		t.Error(err)
	}
	s.NoteCommitted("c")
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"committed [a b]", "committed [c]", "teardown"}; !slices.Equal(c.calls, want) {
		t.Errorf("calls %q, want %q", c.calls, want)
	}
}

// A broken chain is only torn down.
func TestBrokenChain(t *testing.T) {
	broken := errors.New("broken")
	s, c := newChainSlot("p:proc"), &fakeChain{fail: broken}
	s.Install(c)
	_, err := locked(s, func() (connector.Outcome, error) { return s.Process(t.Context(), "a", nil) })
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "cannot run the processors of p:proc: ") {
		t.Errorf("error is %v", err)
	}
	s.NoteCommitted("a")
	if err := s.Teardown(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if want := []string{"process a 0", "teardown"}; !slices.Equal(c.calls, want) {
		t.Errorf("calls %q, want %q", c.calls, want)
	}
}

// A chain abandoned in a call, which keeps the slot locked, is not torn down.
func TestAbandonedChain(t *testing.T) {
	s, c := newChainSlot("p"), &fakeChain{}
	s.Install(c)
	s.Lock()
	if err := s.Teardown(t.Context()); err != nil || len(c.calls) > 0 {
		t.Errorf("calls %q, error %v", c.calls, err)
	}
	s.Unlock()
}

// One goroutine tends a slot. It is woken to end when the slot is closed.
func TestTend(t *testing.T) {
	s := newChainSlot("p")
	got := []bool{s.Tend(), s.Tend()}
	s.Close()
	if want := []bool{true, false}; !slices.Equal(got, want) || !s.Closed() || !woken(s) {
		t.Errorf("tend %v, closed %v", got, s.Closed())
	}
	closed := newChainSlot("q")
	if closed.Close(); closed.Tend() {
		t.Error("a closed slot is tended")
	}
}
