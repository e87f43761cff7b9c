package engine_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// hoarder is a processor that emits records in pairs, and hands the record that it holds to its successor unless that
// refuses it.
type hoarder struct {
	sdk.ProcessorBase
	refuses bool
	held    []sdk.Held
	records []record.Record
}

func (*hoarder) Parameters() sdk.Parameters { return sdk.Parameters{"v": {}} }

func (h *hoarder) Configure(_ context.Context, settings map[string]string) error {
	h.refuses = settings["v"] == "refuses"
	return nil
}

func (h *hoarder) CanSucceed(former sdk.Processor) bool {
	return !h.refuses || len(former.(*hoarder).held) == 0
}

func (h *hoarder) Succeed(former sdk.Processor) {
	h.held, h.records = former.(*hoarder).held, former.(*hoarder).records
}

func (h *hoarder) Process(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		h.records = append(h.records, b.Record(i).Clone())
		if h.held = append(h.held, b.Hold(i)); len(h.held) == 2 {
			b.Emit(sdk.Emission{Records: h.records, Settles: h.held})
			h.records, h.held = nil, nil
		}
	}
	return nil
}

// hoards declares the hoarder at a place with another setting.
func (w *world) hoards(at, v string) {
	p := []spec.Processor{{ID: "hoarder", Plugin: "hoarder", Settings: map[string]string{"v": v}}}
	if at == "" {
		w.spec.Processors = p
		return
	}
	w.spec.Connectors[slices.IndexFunc(w.spec.Connectors, func(c spec.Connector) bool {
		return c.ID == at
	})].Processors = p
}

// Processors are replaced while they hold records, if their successors take the records over: none is lost or
// repeated, and the source stays open.
func TestProcessorsThatHoldAreSucceeded(t *testing.T) {
	for _, at := range []string{"", "src", "dst"} {
		t.Run("at "+at, func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 1)
			more := s.waits(1001)
			d := w.destination("dst", &fakeDestination{async: true})
			w.scripted(at, "hoarder", func() sdk.Processor { return &hoarder{} })
			l := w.begin(t.Context())
			w.hoards(at, "refuses")
			wait.For(t, "a hold", func() bool {
				a, err := l.amend()
				if err == nil {
					a.Discard(t.Context()) // the record has not arrived yet
				} else if !errors.Is(err, spec.ErrNeedsRestart) {
					t.Fatal(err)
				}
				return err != nil
			})
			for i := range 20 {
				w.hoards(at, strconv.Itoa(i))
				l.become()
				if i == 0 {
					close(more)
				}
			}
			wait.For(t, "all but the last", func() bool { return s.ackedUpTo() == 1000 })
			if err := l.stop(); err != nil {
				t.Fatal(err)
			}
			wantValues(t, d.records(), upTo(1000))
		})
	}
}

// A chain that begins to hold records while its successor is prepared stays, and the run continues.
func TestProcessorsThatHoldByNow(t *testing.T) {
	w := newWorld(t)
	s := w.source("src", 2)
	more := s.waits(3)
	d := w.destination("dst", &fakeDestination{})
	w.scripted("", "hoarder", func() sdk.Processor { return &hoarder{} })
	l := w.begin(t.Context())
	wait.For(t, "two records", func() bool { return s.ackedUpTo() == 2 })
	w.hoards("", "refuses")
	a, err := l.amend()
	if err != nil {
		t.Fatal(err)
	}
	close(more)
	wait.For(t, "a third record", func() bool {
		again, err := l.amend()
		if err == nil {
			again.Discard(t.Context())
		}
		return err != nil
	})
	if err := a.Apply(func() { t.Error("it has begun") }); !errors.Is(err, spec.ErrNeedsRestart) {
		t.Errorf("Apply returned %v", err)
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	wantValues(t, d.records(), upTo(2))
}
