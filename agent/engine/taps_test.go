package engine_test

import (
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

func keep(all *[]record.Record) func(*record.Batch) {
	return func(b *record.Batch) {
		records, _ := b.Records()
		*all = append(*all, records...)
	}
}
