package engine_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestObserversSeeEveryRecord(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 500)
	d := w.destination("dst", &fakeDestination{})
	var taps engine.TapPoints
	w.taps = &taps
	var read, written []record.Record
	defer taps.Observe("p:src", keep(&read))()
	defer taps.Observe("p:dst", keep(&written))()
	never := taps.Observe("p:src", func(*record.Batch) { t.Error("called after stop") })
	never()
	if err := w.run(func() bool { return s.ackedUpTo() == 500 }); err != nil {
		t.Fatal(err)
	}
	wantValues(t, read, upTo(500))
	wantValues(t, written, upTo(500))
	wantValues(t, d.records(), upTo(500))
}

// Taps of connectors that no pipeline has any more are removed.
func TestNothingIsKeptOfConnectorsThatAreGone(t *testing.T) {
	w := newWorld(t)
	w.taps, w.stats = &engine.TapPoints{}, &measure.Pipeline{}
	for i := range 5 {
		w.spec.Connectors = nil
		s := w.source(fmt.Sprint("src", i), 10)
		w.destination("dst", &fakeDestination{})
		id := fmt.Sprint("p:src", i)
		before := w.taps.Acquire(id)
		stop := w.taps.Observe(fmt.Sprint("p:src", i), func(*record.Batch) {})
		if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
			t.Fatal(err)
		}
		w.taps.Release(id)
		if w.taps.Acquire(id) != before {
			t.Errorf("the tap of %s was forgotten while it is observed", id)
		}
		stop()
		stop()
		w.taps.Release(id)
		if w.taps.Acquire(id) == before {
			t.Errorf("the tap of %s is kept without observers or a run", id)
		}
		w.taps.Release(id)
	}
	n := 0
	w.stats.Each(func(spec.ConnectorType, string, *measure.Connector) { n++ })
	if n != 2 {
		t.Errorf("there are stats of %d connectors, want 2", n)
	}
	if n := w.stats.Destination("p:dst").Records.Load(); n != 50 {
		t.Errorf("%d records counted of the connector that stayed, want 50", n)
	}
}

func keep(all *[]record.Record) func(*record.Batch) {
	return func(b *record.Batch) {
		records, _ := b.Records()
		*all = append(*all, records...)
	}
}
