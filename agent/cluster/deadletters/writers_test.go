package deadletters_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/cluster/deadletters"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
)

// stepped is a connection to a store that calls before with the number of each write of a head, from 1, first.
type stepped struct {
	*memory
	heads  int
	before func(n int)
}

func (s *stepped) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	if w.Key == protocol.DeadLettersKey("p") {
		s.heads++
		s.before(s.heads)
	}
	return s.memory.Write(ctx, w)
}

// TestTwoWriters lets two members write the same segment, each before the head counts the segment of the other. The
// dead letters of both are kept.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	m := &memory{}
	sealedA, sealedB, again, counted := make(chan struct{}), make(chan struct{}), make(chan struct{}),
		make(chan struct{})
	a := newMember(t, "a", m, &stepped{memory: m, before: func(n int) {
		switch n { // the first write names a as the writer
		case 2: // its segment is written
			close(sealedA)
			<-sealedB
		case 3:
			close(again)
			<-counted
		}
	}}, deadletter.Limits{})
	b := newMember(t, "b", m, &stepped{memory: m, before: func(n int) {
		switch n {
		case 2:
			close(sealedB)
			<-again
		case 3:
			t.Error("the first try of b fails")
		}
	}}, deadletter.Limits{})
	large := func(h *host, key string) error {
		return deadletters.Replayed{Store: h.Store}.Keep(t.Context(), declared("p"),
			refused("p", key, strings.Repeat("x", 200_000)))
	}
	done := make(chan error, 1)
	go func() { done <- large(a, "of a") }()
	<-sealedA
	must(t, large(b, "of b"))
	close(counted)
	must(t, <-done)
	keys := a.keys("p")
	if slices.Sort(keys); !slices.Equal(keys, []string{"of a", "of b"}) {
		t.Errorf("there are %q", keys)
	}
}
