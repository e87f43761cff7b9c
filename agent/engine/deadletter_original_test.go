package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// mark is a processor that sets a field of the metadata, which changes the record in place.
func mark(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		b.Record(i).Metadata.Set("marked", "yes")
	}
	return nil
}

func denyNumber(v int) func(context.Context, *sdk.ProcessBatch) error {
	return eachValue(func(b *sdk.ProcessBatch, i, got int) {
		if got == v {
			b.Refuse(i, errors.New("no"))
		}
	})
}

func refuseNumber(v int) func(record.Record) error {
	return func(r record.Record) error {
		if values([]record.Record{r})[0] == v {
			return errors.New("no")
		}
		return nil
	}
}

// Dead letters of every stage have the record as it was read, if the pipeline keeps it.
func TestDeadLettersHaveTheRecordAsRead(t *testing.T) {
	refuses := func(w *world) {
		w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refuseNumber(2)
	}
	for name, c := range map[string]struct {
		build  func(w *world)
		by     string
		marked bool // the record as refused is marked
		n      int
	}{
		"by a processor of the source": {func(w *world) {
			w.processor("src", "mark", mark)
			w.processor("src", "deny", denyNumber(2))
		}, "p:src:deny", true, 1},
		"by a processor of the pipeline": {func(w *world) {
			w.processor("src", "mark", mark)
			w.processor("", "deny", denyNumber(2))
		}, "p:deny", true, 1},
		"by a processor of the destination": {func(w *world) {
			w.processor("", "mark", mark)
			w.processor("dst", "deny", denyNumber(2))
		}, "p:dst:deny", true, 1},
		"by a processor of the destination alone": {func(w *world) {
			w.processor("dst", "mark", mark)
			w.processor("dst", "deny", denyNumber(2))
		}, "p:dst:deny", true, 1},
		"by the destination": {func(w *world) {
			w.processor("", "mark", mark)
			refuses(w)
		}, "p:dst", true, 1},
		"by the destination behind its processors": {func(w *world) {
			w.processor("dst", "mark", mark)
			refuses(w)
		}, "p:dst", true, 1},
		"without processors": {refuses, "p:dst", false, 1},
		"a piece": {func(w *world) {
			w.processor("", "mark", mark)
			w.processor("", "split", split(3))
			w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refusePieces(2, "2")
		}, "p:dst", true, 1},
		"a held record": {func(w *world) {
			w.processor("src", "mark", mark)
			w.scripted("", "gather", func() sdk.Processor { return &gather{n: 2} })
			refuses(w)
		}, "p:dst", true, 2},
	} {
		for _, keep := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", ", keep), func(t *testing.T) {
				var mu sync.Mutex
				var kept []engine.DeadLetter
				w := newWorld(t)
				w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.KeepOriginal = 0, keep
				w.keep = func(_ context.Context, l *engine.DeadLetter) error {
					mu.Lock()
					defer mu.Unlock()
					one := *l
					if one.Record = l.Record.Clone(); l.Original != nil {
						original := l.Original.Clone()
						one.Original = &original
					}
					kept = append(kept, one)
					return nil
				}
				s := w.source("src", 10)
				w.destination("dst", &fakeDestination{})
				c.build(w)
				if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
					t.Fatal(err)
				}
				if len(kept) != c.n || kept[0].RefusedBy != c.by ||
					(kept[0].Record.Metadata.Get("marked") != "") != c.marked {
					t.Fatalf("kept are %+v", kept)
				}
				for _, l := range kept {
					if !keep {
						if l.Original != nil {
							t.Errorf("an original record: %+v", l.Original)
						}
						continue
					}
					if l.Original == nil || l.Original.Metadata.Get("marked") != "" || piece(*l.Original) != "" ||
						string(l.Original.Position) != string(l.Record.Position) {
						t.Errorf("as read: %+v", l.Original)
					}
				}
			})
		}
	}
}

// The window counts the originals of records in flight: a source reads less far ahead.
func TestOriginalRecordsCountAsMemory(t *testing.T) {
	records := []record.Record{{Position: record.Position("1"),
		After: record.Structured(map[string]any{"text": "some text"})}}
	var tracker engine.Tracker
	b := tracker.Batch(record.NewBatch(slices.Clone(records)), 1)
	before := b.Size()
	b.KeepOriginal()
	if b.Size() < 2*before {
		t.Errorf("%d bytes with the record as it was read, %d without", b.Size(), before)
	}
	m, _ := records[0].After.Structured()
	m["text"] = "changed"
	if got, _ := b.AsRead(0).After.Structured(); got["text"] != "some text" {
		t.Errorf("as read: %v", got)
	}
	tracker.Add(b)
	tracker.Settle(b, 0, 1, false)
	if next := tracker.Batch(record.NewBatch(records), 1); next.AsRead(0) != nil {
		t.Error("the next batch has the records of the one before")
	}
}
