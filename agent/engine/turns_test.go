package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
)

// queue is who waits for turns and who got one.
type queue struct {
	t     *testing.T
	turns *engine.Turns
	start time.Time

	mu  sync.Mutex
	got map[int]*engine.Turn // guarded by mu
}

func newQueue(t *testing.T, most int) *queue {
	return &queue{t: t, turns: engine.TurnsOf(most), got: map[int]*engine.Turn{}, start: time.Now()}
}

// begin has somebody ask for a turn, and returns when nothing moves any more.
func (q *queue) begin(ctx context.Context, who int) {
	go func() {
		turn, err := q.turns.Begin(ctx)
		if err != nil {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.got[who] = turn
	}()
	synctest.Wait()
}

func (q *queue) end(who int) {
	q.turns.End(q.got[who])
	synctest.Wait()
}

func (q *queue) goesOn(who int, want bool) {
	q.t.Helper()
	if got := q.turns.Prolong(q.got[who]); got != want {
		q.t.Errorf("the turn of %d goes on: %v", who, got)
	}
}

func (q *queue) want(after time.Duration, who ...int) {
	q.t.Helper()
	time.Sleep(after - time.Since(q.start))
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if got := slices.Sorted(maps.Keys(q.got)); !slices.Equal(got, who) {
		q.t.Errorf("after %v %v got turns, want %v", after, got, who)
	}
}

func TestTurns(t *testing.T) {
	tests := map[string]func(t *testing.T, q *queue){
		"those who come first are first": func(t *testing.T, q *queue) {
			for who := range 5 {
				q.begin(t.Context(), who)
			}
			q.want(0, 0, 1)
			q.end(1)
			q.want(0, 0, 1, 2)
			q.end(0)
			q.end(2)
			q.want(0, 0, 1, 2, 3, 4)
		},
		"nobody keeps others waiting for long": func(t *testing.T, q *queue) {
			for who := range 3 {
				q.begin(t.Context(), who)
			}
			q.want(9*time.Millisecond, 0, 1)
			q.begin(t.Context(), 3)
			q.begin(t.Context(), 4)
			q.want(10*time.Millisecond, 0, 1, 2, 3)
			q.end(0) // has been over for a while
			q.want(19*time.Millisecond, 0, 1, 2, 3)
			q.want(20*time.Millisecond, 0, 1, 2, 3, 4)
		},
		"where processors are waited for, a turn takes longer": func(t *testing.T, q *queue) {
			q.turns.Late(20 * time.Millisecond)
			for who := range 3 {
				q.begin(t.Context(), who)
			}
			q.want(89*time.Millisecond, 0, 1)
			q.want(90*time.Millisecond, 0, 1, 2)
			q.begin(t.Context(), 3) // the timer was in time again
			q.want(91*time.Millisecond, 0, 1, 2, 3)
			q.begin(t.Context(), 4)
			q.want(99*time.Millisecond, 0, 1, 2, 3)
			q.want(100*time.Millisecond, 0, 1, 2, 3, 4)
		},
		"but not for ever": func(t *testing.T, q *queue) {
			q.turns.Late(time.Hour)
			for who := range 3 {
				q.begin(t.Context(), who)
			}
			q.want(249*time.Millisecond, 0, 1)
			q.want(250*time.Millisecond, 0, 1, 2)
		},
		"a turn goes on while nobody waits": func(t *testing.T, q *queue) {
			q.begin(t.Context(), 0)
			q.begin(t.Context(), 1)
			time.Sleep(time.Second)
			q.goesOn(0, true)
			q.begin(t.Context(), 2)
			q.want(time.Second, 0, 1, 2) // the others took long
			q.goesOn(0, false)
			q.begin(t.Context(), 3)
			q.begin(t.Context(), 4)
			q.goesOn(2, false)
			q.end(3)
			q.want(time.Second, 0, 1, 2, 3, 4)
			q.goesOn(2, true)
			q.goesOn(3, false)
		},
		"who leaves the queue takes no turn": func(t *testing.T, q *queue) {
			q.begin(t.Context(), 0)
			q.begin(t.Context(), 1)
			ctx, cancel := context.WithCancel(t.Context())
			q.begin(ctx, 2)
			q.begin(t.Context(), 3)
			cancel()
			synctest.Wait()
			q.end(0)
			q.want(0, 0, 1, 3)
		},
		"a turn that nobody takes any more passes on": func(t *testing.T, q *queue) {
			q.begin(t.Context(), 0)
			q.begin(t.Context(), 1)
			ctx, cancel := context.WithCancel(t.Context())
			q.begin(ctx, 2)
			q.begin(t.Context(), 3)
			cancel() // at the same time as it is granted: either may be seen first
			q.turns.End(q.got[0])
			synctest.Wait()
			if q.got[2] != nil {
				q.end(2)
			}
			if q.got[3] == nil {
				t.Error("it was lost")
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newQueue(t, 2)) })
		})
	}
}

// A turn ends when what was read in it is settled, so that turns cost no time.
func TestTurnsEndWhenRecordsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorldUntil(ctx, t, time.Millisecond)
		w.window.Turns = engine.TurnsOf(1)
		const total = 20_000 // of each source, in 40 turns
		w.destination("dst", &fakeDestination{async: true})
		var sources []*fakeSource
		for i := range 2 {
			sources = append(sources, w.source(fmt.Sprint("src", i), total))
		}
		start := time.Now()
		err := w.run(func() bool {
			return !slices.ContainsFunc(sources, func(s *fakeSource) bool { return s.ackedUpTo() < total })
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// Pipelines whose destinations do not answer do not keep others from their turns.
func TestTurnsBesideStuckPipelines(t *testing.T) {
	turns := engine.TurnsOf(1)
	stuck := newWorld(t)
	stuck.window.Turns = turns
	stuck.source("src", 1<<30)
	d := stuck.destination("dst", &fakeDestination{hold: make(chan struct{})})
	p := stuck.pipeline()
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, make(chan struct{}), func() {}) }()
	w := newWorld(t)
	w.window.Turns = turns
	s := w.source("src", 5000)
	w.destination("dst", &fakeDestination{})
	if err := w.run(func() bool { return s.ackedUpTo() == 5000 }); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run ended with %v, want context.Canceled", err)
	}
	close(d.hold)
}
