package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// memory has space for a number of bytes, for all users together.
type memory struct{ space, used int }

// user is a user of the memory.
type user struct {
	*memory
	held int
}

func (u *user) Take(n int) bool {
	if u.used+n > u.space {
		return false
	}
	u.Add(n)
	return true
}

func (u *user) Add(n int) { u.used, u.held = u.used+n, u.held+n }

func (u *user) Close() { u.Add(-u.held) }

const large = 700 << 10

func keepLarge(t *testing.T, s *deadletter.Store, n int) {
	t.Helper()
	for i := range n {
		l := deadLetter(i, "p:dst", "no")
		l.Record.After = record.Raw(bytes.Repeat([]byte{'x'}, large))
		keep(t, s, declared("p"), l)
	}
	must(t, s.Flush(t.Context()))
}

// TestLargeDeadLettersAreLoadedOneByOne checks that a replay loads few large dead letters at once, and reserves their
// memory first.
func TestLargeDeadLettersAreLoadedOneByOne(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	keepLarge(t, s, 5)
	for name, request := range map[string]spec.ReplayRequest{"all": {}, "named": {IDs: []int64{1, 2, 3, 4, 5, 9999}}} {
		reserved := 0
		next, err := s.Select(t.Context(), "p", request, func(_ context.Context, n int) error {
			reserved = n
			return nil
		})
		must(t, err)
		got := 0
		for {
			some, _, err := next(t.Context())
			must(t, err)
			if len(some) == 0 {
				break
			}
			if got += len(some); len(some) > 2 || reserved < 2*len(some)*large {
				t.Errorf("%s: %d are loaded at once, with memory for %d bytes", name, len(some), reserved)
			}
		}
		if got != 5 {
			t.Errorf("%s: %d of 5 are loaded", name, got)
		}
	}
}

// TestDeadLettersAreShownWithinMemory checks that a dead letter is shown only if there is memory, which is released
// when the request has ended.
func TestDeadLettersAreShownWithinMemory(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	m := &memory{space: 10 * large}
	s.Memory = func() deadletter.Memory { return &user{memory: m} }
	keepLarge(t, s, 2)
	if m.used != 0 {
		t.Fatalf("%d bytes are counted of what is written", m.used)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	if l, err := s.Get(ctx, "p", 1); err != nil || len(l.Record) < large || m.used < large {
		t.Fatalf("%d bytes are shown, %d counted: %v", len(l.Record), m.used, err)
	}
	_, err := s.Get(t.Context(), "p", 2)
	if !errors.Is(err, spec.ErrExhausted) {
		t.Errorf("without memory it is answered with %v", err)
	}
	if s.Fault() != nil {
		t.Errorf("the store is to blame: %v", s.Fault())
	}
}
