package engine_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

func batch() *record.Batch {
	return record.NewBatch([]record.Record{{Position: record.Position("1")}})
}

// Observers see the records that pass their connector, until they stop.
func TestObserve(t *testing.T) {
	var points engine.TapPoints
	p := points.Acquire("p:src")
	defer points.Release("p:src")
	var seen []string
	observe := func(name, id string) (stop func()) {
		return points.Observe(id, func(*record.Batch) { seen = append(seen, name) })
	}
	p.Publish(batch()) // before there is an observer
	first, second := observe("first", "p:src"), observe("second", "p:src")
	other := observe("other", "p:dst")
	defer other()
	p.Publish(batch())
	first()
	first() // again: has no effect
	p.Publish(batch())
	second()
	p.Publish(batch())
	if want := []string{"first", "second", "second"}; !slices.Equal(seen, want) {
		t.Errorf("seen by %v, want %v", seen, want)
	}
}

// A connector keeps its observers from run to run. Its tap is removed when it has neither a run nor observers.
func TestPointsAreForgotten(t *testing.T) {
	var points engine.TapPoints
	n := 0
	stop := points.Observe("p:src", func(*record.Batch) { n++ })
	first := points.Acquire("p:src")
	points.Release("p:src")
	again := points.Acquire("p:src")
	again.Publish(batch())
	if again != first || n != 1 {
		t.Errorf("the tap is the same: %v; %d batches seen", again == first, n)
	}
	points.Release("p:src")
	stop()
	if p := points.Acquire("p:src"); p == first {
		t.Error("it is kept without a use")
	}
}

// Only records that will be changed are copied for observers, and only if there are any.
func TestPublishCopy(t *testing.T) {
	var points engine.TapPoints
	var seen []*record.Batch
	p := points.Acquire("p:src")
	b := batch()
	stop := points.Observe("p:src", func(b *record.Batch) { seen = append(seen, b) })
	p.Publish(b)
	p.PublishCopy(b)
	stop()
	if len(seen) != 2 || seen[0] != b || seen[1] == b || string(seen[1].Position(0)) != "1" {
		t.Errorf("seen %v, published %p", seen, b)
	}
	if n := testing.AllocsPerRun(10, func() { p.PublishCopy(b); p.Publish(b) }); n > 0 {
		t.Errorf("%v allocations without observers", n)
	}
}

func TestPublish(t *testing.T) {
	var points engine.TapPoints
	var seen []string
	defer points.Observe(engine.TapIn("p:proc"), func(b *record.Batch) {
		seen = append(seen, "in "+string(b.Position(0)))
	})()
	defer points.Observe(engine.TapOut("p:proc"), func(b *record.Batch) {
		seen = append(seen, "out "+string(b.Position(0)))
	})()
	points.Publish(engine.TapIn("p:proc"), []record.Record{{Position: record.Position("1")}})
	points.Publish(engine.TapOut("p:proc"), []record.Record{{Position: record.Position("2")}})
	points.Publish(engine.TapOut("p:other"), []record.Record{{Position: record.Position("3")}})
	if want := []string{"in 1", "out 2"}; !slices.Equal(seen, want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
}

// Runs without taps pass their records all the same.
func TestNil(t *testing.T) {
	var points *engine.TapPoints
	p := points.Acquire("p:src")
	p.Publish(batch())
	p.PublishCopy(batch())
	points.Publish("p:proc", nil)
	points.Release("p:src")
	if p != nil {
		t.Error("there is a tap")
	}
}
