package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Returning records are reported once each when a committed position covers them: written, dropped or refused. Others
// are not.
func TestReturningRecords(t *testing.T) {
	for _, at := range []string{"", "src", "dst", "none"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			s := w.source("src", 300)
			w.destination("dst", &fakeDestination{async: true})
			if at != "none" {
				w.processor(at, "sieve", sieve)
			}
			var mu sync.Mutex
			settled := map[string]int{}
			returning := func(source, position string) engine.Returning {
				return engine.Returning{SourceID: source, Position: record.Position(position), Settled: func() {
					if n := w.store.saved("p:src"); fmt.Sprint(n) != position && n < 100 {
						t.Errorf("%s is reported when %d is committed", position, n)
					}
					mu.Lock()
					defer mu.Unlock()
					settled[source+" "+position]++
				}}
			}
			w.returning = func(context.Context) ([]engine.Returning, error) {
				return []engine.Returning{returning("p:src", "100"), returning("p:src", "101"), returning("p:src", "102"),
					returning("p:src", "102"), returning("p:src", "301"), returning("p:other", "100")}, nil
			}
			if err := w.run(func() bool { return s.ackedUpTo() == 300 }); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(settled); got != "map[p:src 100:1 p:src 101:1 p:src 102:2]" {
				t.Errorf("settled are %s", got)
			}
		})
	}
}

// A returning record that ends the run again is not reported, and a failure to find them ends no run.
func TestReturningRecordsThatFail(t *testing.T) {
	w := newWorld(t)
	w.source("src", 10)
	w.destination("dst", &fakeDestination{failAt: 5})
	w.returning = func(context.Context) ([]engine.Returning, error) {
		return []engine.Returning{{SourceID: "p:src", Position: record.Position("5"), Settled: func() {
			t.Error("it is reported")
		}}}, nil
	}
	if err := w.run(func() bool { return false }); err == nil {
		t.Error("the run does not fail")
	}
	w = newWorld(t)
	s := w.source("src", 10)
	w.destination("dst", &fakeDestination{})
	w.returning = func(context.Context) ([]engine.Returning, error) { return nil, errors.New("no disk") }
	if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
		t.Error(err)
	}
}
