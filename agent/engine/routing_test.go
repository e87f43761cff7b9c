package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// divisible sets "by" of each record to the numbers up to 5 that divide its value.
func divisible(ctx context.Context, b *sdk.ProcessBatch) error {
	return eachValue(func(b *sdk.ProcessBatch, i, v int) {
		by := ""
		for n := 2; n <= 5; n++ {
			if v%n == 0 {
				by += strconv.Itoa(n)
			}
		}
		b.Record(i).Metadata.Set("by", by)
	})(ctx, b)
}

// divides is the condition of the records whose value n divides.
func divides(n int) string { return fmt.Sprintf(`{{ contains "%d" .Metadata.by }}`, n) }

// chosen are the numbers up to n for which the function is true.
func chosen(n int, takes func(v int) bool) []int {
	return slices.DeleteFunc(upTo(n), func(v int) bool { return !takes(v) })
}

// TestRouting sends records to destinations with and without a condition, a default and processors. Everything is
// acknowledged, whether a destination takes it or not.
func TestRouting(t *testing.T) {
	const n = 500
	none := func(v int) bool { return v%2 != 0 && v%3 != 0 }
	for routing, want := range map[spec.Routing]map[string]func(v int) bool{
		spec.RouteToAll: {
			"even":   func(v int) bool { return v%2 == 0 },
			"triple": func(v int) bool { return v%3 == 0 },
			"rest":   none,
			"all":    func(int) bool { return true },
		},
		spec.RouteToFirst: {
			"even":   func(v int) bool { return v%2 == 0 },
			"triple": func(v int) bool { return v%3 == 0 && v%2 != 0 },
			"rest":   func(int) bool { return false },
			"all":    none,
		},
		"": {"even": func(v int) bool { return v%2 == 0 }, "triple": func(v int) bool { return v%3 == 0 }},
	} {
		t.Run(string(routing), func(t *testing.T) {
			w := newWorld(t)
			w.spec.Routing = routing
			s := w.source("src", n)
			w.processor("", "divisible", divisible)
			got := map[string]*fakeDestination{}
			for _, id := range []string{"even", "triple", "rest", "all"} {
				if want[id] != nil {
					got[id] = w.destination(id, &fakeDestination{async: id == "triple"})
				}
			}
			for i := range w.spec.Connectors {
				switch c := &w.spec.Connectors[i]; c.ID {
				case "even":
					c.Condition = divides(2)
				case "triple":
					c.Condition = divides(3)
				case "rest":
					c.Default = true
				}
			}
			seen := map[string]*[]int{"even": {}, "triple": {}}
			for id, values := range seen { // their processors change records
				w.processor(id, id+"-own", eachValue(func(b *sdk.ProcessBatch, i, v int) {
					*values = append(*values, v)
					b.Record(i).Metadata.Set("by", id)
				}))
			}
			if err := w.run(func() bool { return s.ackedUpTo() == n }); err != nil {
				t.Fatal(err)
			}
			for id, takes := range want {
				wantValues(t, got[id].records(), chosen(n, takes))
				for _, r := range got[id].records() {
					if by := r.Metadata.Get("by"); (id == "even" || id == "triple") != (by == id) {
						t.Fatalf("a record of %s has %q", id, by)
					}
				}
			}
			for id, all := range seen {
				if !slices.Equal(*all, chosen(n, want[id])) {
					t.Errorf("the processors of %s get %d records", id, len(*all))
				}
			}
		})
	}
}

// A record for which a condition fails is one dead letter, and no destination gets it.
func TestRoutingRefuses(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize = 0
	s := w.source("src", 20)
	w.processor("", "divisible", divisible)
	a, b := w.destination("a", &fakeDestination{}), w.destination("b", &fakeDestination{})
	w.spec.Connectors[1].Condition = divides(2)
	w.spec.Connectors[2].Condition = `{{ if contains "5" .Metadata.by }}maybe{{ else }}true{{ end }}`
	if err := w.run(func() bool { return s.ackedUpTo() == 20 }); err != nil {
		t.Fatal(err)
	}
	wantValues(t, a.records(), chosen(20, func(v int) bool { return v%2 == 0 && v%5 != 0 }))
	wantValues(t, b.records(), chosen(20, func(v int) bool { return v%5 != 0 }))
	letters := w.deadLetters()
	if len(letters) != 4 || !strings.Contains(letters[0], `5 by p:@routing: condition of destination "b"`) {
		t.Errorf("dead letters: %q", letters)
	}
}

// Other conditions, another order and no conditions at all take effect between two batches, without a restart.
func TestRoutingChangesInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, more := w.source("src", 0), make(chan int)
		s.caughtUp = func() {
			select {
			case n := <-more:
				s.total += n
			case <-s.stopped:
			}
		}
		w.processor("", "divisible", divisible)
		a, b := w.destination("a", &fakeDestination{}), w.destination("b", &fakeDestination{})
		next, wantA, wantB := 0, []int(nil), []int(nil)
		l := w.begin(t.Context())
		feed := func(toA, toB func(v int) bool) {
			t.Helper()
			more <- 60
			synctest.Wait()
			for v := next + 1; v <= next+60; v++ {
				if toA(v) {
					wantA = append(wantA, v)
				}
				if toB(v) {
					wantB = append(wantB, v)
				}
			}
			next += 60
			wantValues(t, a.records(), wantA)
			wantValues(t, b.records(), wantB)
		}
		is := func(n int) func(int) bool { return func(v int) bool { return v%n == 0 } }
		all := is(1)
		feed(all, all)
		w.spec.Connectors[1].Condition, w.spec.Connectors[2].Condition = divides(2), divides(3)
		l.become()
		feed(is(2), is(3))
		w.spec.Routing = spec.RouteToFirst
		l.become()
		feed(is(2), func(v int) bool { return v%3 == 0 && v%2 != 0 })
		w.spec.Connectors[1], w.spec.Connectors[2] = w.spec.Connectors[2], w.spec.Connectors[1]
		l.become()
		feed(func(v int) bool { return v%2 == 0 && v%3 != 0 }, is(3))
		w.spec.Routing, w.spec.Connectors[1].Condition, w.spec.Connectors[2].Condition = "", "", ""
		l.become()
		feed(all, all)
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
