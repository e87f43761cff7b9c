package engine_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

func TestObserversSeeEveryRecord(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 500)
	d := w.destination("dst", &fakeDestination{})
	var taps engine.Taps
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

// What no pipeline has any more is forgotten.
func TestNothingIsKeptOfConnectorsThatAreGone(t *testing.T) {
	w := newWorld(t)
	w.taps, w.stats = &engine.Taps{}, &engine.PipelineStats{}
	for i := range 5 {
		w.spec.Connectors = nil
		s := w.source(fmt.Sprint("src", i), 10)
		w.destination("dst", &fakeDestination{})
		stop := w.taps.Observe(fmt.Sprint("p:src", i), func(*record.Batch) {})
		if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
			t.Fatal(err)
		}
		if n := w.taps.Points(); n != 1 {
			t.Errorf("%d taps with one observer and no run", n)
		}
		stop()
		stop()
	}
	if taps, stats := w.taps.Points(), w.stats.Connectors(); taps != 0 || stats != 2 {
		t.Errorf("%d taps without observers, stats of %d connectors; want 0 and 2", taps, stats)
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
