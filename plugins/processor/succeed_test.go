package processor_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// succession is a chain of built-in processors that is replaced by other chains.
type succession struct {
	t *testing.T
	*processor.Chain
	options processor.Options
}

func succeeding(t *testing.T, declared ...spec.Processor) *succession {
	t.Helper()
	s := &succession{t: t, options: processor.Options{Registry: &processor.Registry{Builtin: processors.All()},
		StateDir: t.TempDir()}}
	var err error
	if s.Chain, err = processor.Open(t.Context(), "p", declared, s.options); err != nil {
		t.Fatal(err)
	}
	return s
}

// become replaces the chain by another one, unless something would be lost.
func (s *succession) become(declared ...spec.Processor) bool {
	s.t.Helper()
	o := s.options
	o.Former = s.Chain
	next, err := processor.Open(s.t.Context(), "p", declared, o)
	if err != nil {
		s.t.Fatal(err)
	}
	can := next.CanSucceed(s.Chain)
	former := next
	if can {
		next.Succeed(s.Chain)
		former, s.Chain = s.Chain, next
	}
	if err := former.Teardown(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return can
}

// give returns the texts that pass, and the records of batches that settle with them.
func (s *succession) give(token any, given ...string) (on []string, settles []sdk.Held) {
	s.t.Helper()
	out, err := s.Process(s.t.Context(), token, recordsOf(given...))
	if err != nil {
		s.t.Fatal(err)
	}
	on = texts(out.Records)
	for _, e := range out.Emitted {
		on, settles = append(on, texts(e.Records)...), append(settles, e.Settles...)
	}
	return on, settles
}

func declaredAs(plugin string, settings map[string]string) spec.Processor {
	return spec.Processor{ID: "it", Plugin: plugin, Settings: settings}
}

var byText = map[string]string{"key": ".Payload.After"}

// The successor also takes over keys from uncommitted records, and makes them durable when the records are committed.
func TestDedupeIsSucceeded(t *testing.T) {
	s := succeeding(t, declaredAs("dedupe", byText))
	s.give("one", "a", "b")
	if !s.become(declaredAs("dedupe", map[string]string{"key": ".Payload.After", "window.count": "3"})) {
		t.Fatal("it cannot be succeeded")
	}
	if on, _ := s.give("two", "b", "c"); !slices.Equal(on, []string{"c"}) {
		t.Errorf("%q go on, want only c", on)
	}
	if err := s.Committed(t.Context(), []any{"one"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := processor.Open(t.Context(), "p", []spec.Processor{declaredAs("dedupe", byText)}, s.options)
	if err != nil {
		t.Fatal(err)
	}
	s.Chain = again
	if on, _ := s.give("three", "a", "b", "c"); !slices.Equal(on, []string{"c"}) {
		t.Errorf("after a restart %q go on, want only c, whose batch was not committed", on)
	}
}

// Keys learned from emitted records become durable when all inputs of the emission are committed, also in a successor.
func TestWhatIsLearnedFromEmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := func(burst string) []spec.Processor {
			return []spec.Processor{{ID: "slow", Plugin: "throttle", Settings: map[string]string{"rate": "1",
				"burst": burst}}, declaredAs("dedupe", byText)}
		}
		s := succeeding(t, chain("1")...)
		restarted := func(declared ...spec.Processor) []string {
			again, err := processor.Open(t.Context(), "p", declared, s.options)
			if err != nil {
				t.Fatal(err)
			}
			on, _ := (&succession{t: t, Chain: again}).give("again", "a", "b", "c")
			if err := again.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			return on
		}
		s.give("one", "a", "b")
		s.give("two", "c")
		time.Sleep(time.Second)
		if on, _ := s.give(nil); !slices.Equal(on, []string{"b"}) {
			t.Fatalf("%q go on, want b", on)
		}
		if !s.become(chain("2")...) {
			t.Fatal("it cannot be succeeded")
		}
		if on := restarted(chain("9")[1]); !slices.Equal(on, []string{"a", "b", "c"}) {
			t.Errorf("after a crash %q go on, want all: nothing is committed", on)
		}
		if err := s.Committed(t.Context(), []any{"one"}); err != nil {
			t.Fatal(err)
		}
		if on := restarted(chain("9")[1]); !slices.Equal(on, []string{"c"}) {
			t.Errorf("after a crash %q go on, want c, whose batch is not committed", on)
		}
	})
}

// A successor that is not put in place does not affect the state of the old processor.
func TestSuccessorsThatAreNotNeeded(t *testing.T) {
	s := succeeding(t, declaredAs("dedupe", byText),
		spec.Processor{ID: "held", Plugin: "throttle", Settings: map[string]string{"rate": "1", "interval": "1h"}})
	s.give("one", "a", "b")
	if s.become(declaredAs("dedupe", byText)) {
		t.Error("records that a processor holds which is there no more are lost")
	}
	if err := s.Committed(t.Context(), []any{"one"}); err != nil {
		t.Errorf("the old chain does not go on: %v", err)
	}
	if on, _ := s.give("two", "a", "c"); len(on) > 0 || s.Holding() != 2 {
		t.Errorf("%q go on, %d are held, want none and 2", on, s.Holding())
	}
}

func TestThrottleIsSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func(n int) spec.Processor {
			return declaredAs("throttle", map[string]string{"rate": fmt.Sprint(n), "burst": "1"})
		}
		s := succeeding(t, rate(1))
		if on, _ := s.give("one", "a", "b", "c", "d"); !slices.Equal(on, []string{"a"}) {
			t.Fatalf("%q go on", on)
		}
		if !s.become(rate(100), declaredOther) {
			t.Fatal("it cannot be succeeded")
		}
		if s.Holding() != 3 || time.Until(s.Deadline()) != 10*time.Millisecond {
			t.Errorf("%d are held for %s, want 3 for 10ms", s.Holding(), time.Until(s.Deadline()))
		}
		var all []string
		var settled []sdk.Held
		for range 3 {
			time.Sleep(time.Until(s.Deadline()))
			on, settles := s.give(nil)
			all, settled = append(all, on...), append(settled, settles...)
		}
		want := []sdk.Held{{Batch: "one", Index: 1}, {Batch: "one", Index: 2}, {Batch: "one", Index: 3}}
		if !slices.Equal(all, []string{"b", "c", "d"}) || !slices.Equal(settled, want) || s.Holding() != 0 {
			t.Errorf("%q went on, settling %v, and %d are held", all, settled, s.Holding())
		}
	})
}

// declaredOther is a processor that the first chain does not have.
var declaredOther = spec.Processor{ID: "other", Plugin: "field.set",
	Settings: map[string]string{"field": ".Metadata.m", "value": "v"}}

// An open window passes to a successor that computes the same results. Otherwise the old processor stays.
func TestAggregateIsSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aggregate := func(size, more string) spec.Processor {
			return declaredAs("aggregate", map[string]string{"window.size": size, "fields.last": "last(" + more + ")",
				"window.records": "5"})
		}
		s := succeeding(t, aggregate("1m", ".Payload.After"))
		s.give("one", "a", "b")
		if s.become(aggregate("2m", ".Payload.After")) || s.become(aggregate("1m", ".Key")) || s.become() {
			t.Error("an open window is lost")
		}
		changed := aggregate("1m", ".Payload.After")
		changed.Settings["window.records"], changed.Condition = "4", `{{ ne .Metadata.m "x" }}`
		if !s.become(declaredOther, changed) {
			t.Fatal("a window cannot be gone on with")
		}
		s.give("two", "c")
		time.Sleep(time.Until(s.Deadline()))
		out, err := s.Process(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []sdk.Held{{Batch: "one", Index: 0}, {Batch: "one", Index: 1}, {Batch: "two", Index: 0}}
		if len(out.Emitted) != 1 || !slices.Equal(out.Emitted[0].Settles, want) {
			t.Fatalf("emitted %+v, want one that settles %v", out.Emitted, want)
		}
		if !s.become(aggregate("2m", ".Key")) {
			t.Error("it cannot be succeeded although no window is open")
		}
	})
}

// Records made by one processor and held by another keep their names.
func TestHeldEmissionsAreSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gather := spec.Processor{ID: "gather", Plugin: "aggregate",
			Settings: map[string]string{"window.size": "1s", "window.records": "2"}}
		slow := declaredAs("throttle", map[string]string{"rate": "1", "interval": "1h", "burst": "1"})
		s := succeeding(t, gather, slow)
		s.give("one", "a", "b", "c", "d") // two records; the second waits
		if !s.become(gather, declaredAs("throttle", map[string]string{"rate": "1000", "burst": "1"})) {
			t.Fatal("it cannot be succeeded")
		}
		time.Sleep(time.Until(s.Deadline()))
		_, settles := s.give(nil)
		if want := []sdk.Held{{Batch: "one", Index: 2}, {Batch: "one", Index: 3}}; !slices.Equal(settles, want) ||
			s.Holding() != 0 {
			t.Errorf("settles %v, holding %d, want %v and 0", settles, s.Holding(), want)
		}
	})
}
