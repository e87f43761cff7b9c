package deadletter_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// withOriginal returns a dead letter with the record as it was read.
func withOriginal(n int, by string) *engine.DeadLetter {
	l := deadLetter(n, by, "no")
	original := l.Record.Clone()
	original.After = record.Structured(map[string]any{"n": math.NaN(), "bytes": []byte{0xff}})
	l.Original = &original
	return l
}

func TestOriginalIsKept(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	keep(t, s, declared("p"), withOriginal(1, "p:dst"), deadLetter(2, "p:dst", "no"))
	all, _ := selected(t, s, spec.ReplayRequest{All: true})
	for i, l := range []*engine.DeadLetter{withOriginal(1, "p:dst"), deadLetter(2, "p:dst", "no")} {
		original, err := all[i].Original()
		must(t, err)
		if diff := cmp.Diff(l.Original, original, cmp.Comparer(sameRecord)); diff != "" {
			t.Errorf("as read (-want +got):\n%s", diff)
		}
		if !sameRecord(l.Record, all[i].Record) {
			t.Errorf("as refused: %+v", all[i].Record)
		}
	}
	one, err := s.Get(t.Context(), "p", 1)
	must(t, err)
	if !json.Valid(one.Record) || !json.Valid(one.Original) || strings.Contains(string(one.Record), "original") ||
		!strings.Contains(string(one.Original), `"n":"NaN"`) || strings.Contains(string(one.Original), "exact") {
		t.Errorf("record %s, as read %s", one.Record, one.Original)
	}
	if one.Bytes < int64(len(one.Record)+len(one.Original)) {
		t.Errorf("%d bytes count", one.Bytes)
	}
	if two, err := s.Get(t.Context(), "p", 2); err != nil || two.Original != nil {
		t.Errorf("the second has %s (%v)", two.Original, err)
	}
}

// sameRecord reports whether two records have the same values. NaN equals itself.
func sameRecord(a, b record.Record) bool { return cmp.Equal(a.Map(), b.Map(), cmp.Comparer(sameFloat)) }

func sameFloat(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// A field of a record may have the name of data that is kept beside it.
func TestFieldThatIsNamedOriginal(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	for i, after := range []record.Data{
		record.Structured(map[string]any{"n": int64(1), "original": "e30="}),
		record.Raw([]byte(`{"n":1,"original":"e30="}`)),
	} {
		l := deadLetter(i+1, "p:dst", "no")
		l.Record.After = after
		keep(t, s, declared("p"), l)
		all, _ := selected(t, s, spec.ReplayRequest{IDs: []int64{int64(i + 1)}})
		if original, err := all[0].Original(); original != nil || err != nil || !sameRecord(all[0].Record, l.Record) {
			t.Errorf("%+v, as read %v (%v)", all[0].Record, original, err)
		}
	}
}

// An edit, and another refusal in a replay, leave the record as it was read.
func TestOriginalStays(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	keep(t, s, declared("p"), withOriginal(1, "p:dst"), withOriginal(2, "p:dst"))
	edited := deadLetter(1, "p:dst", "").Record
	edited.After = record.Raw([]byte("edited"))
	one, err := s.Edit(t.Context(), "p", 1, &edited)
	must(t, err)
	if !strings.Contains(string(one.Original), "NaN") || !strings.Contains(string(one.Record), "ZWRpdGVk") {
		t.Errorf("record %s, as read %s", one.Record, one.Original)
	}
	again := withOriginal(2, "p:dst:d1")
	again.Record.After = record.Raw([]byte("again"))
	must(t, s.Again(t.Context(), declared("p"), 2, again, true))
	two, err := s.Get(t.Context(), "p", 2)
	must(t, err)
	if two.Stage != spec.RefusedByDestinationProcessor || !strings.Contains(string(two.Original), "NaN") ||
		!strings.Contains(string(two.Record), "YWdhaW4=") {
		t.Errorf("%+v", two)
	}
	totals, err := s.Totals(t.Context())
	must(t, err)
	if totals[0].Bytes != one.Bytes+two.Bytes {
		t.Errorf("%d bytes count, want %d and %d", totals[0].Bytes, one.Bytes, two.Bytes)
	}
}

// TestWhereReplaysEnter replays dead letters of every stage through edited pipelines.
func TestWhereReplaysEnter(t *testing.T) {
	reordered, gone, bare := declared("p").Pipeline, declared("p").Pipeline, spec.Pipeline{ID: "p"}
	reordered.Processors = []spec.Processor{{ID: "new"}, {ID: "p1"}, {ID: "p0"}}
	gone.Processors = []spec.Processor{{ID: "p0"}, {ID: "p2"}}
	bare.Connectors = []spec.Connector{{ID: "other", Type: spec.TypeSource}}
	renamed := declared("p").Pipeline.Clone()
	renamed.Connectors[0].ID = "in"
	for _, c := range []struct {
		name     string
		pipeline spec.Pipeline
		by       string
		from     spec.ReplayFrom
		want     string
	}{
		{"source", declared("p").Pipeline, "p:src:s1", "refused", "source src 1"},
		{"source", declared("p").Pipeline, "p:src:s1", "first", "source src 0"},
		{"pipeline", declared("p").Pipeline, "p:p1", "refused", "pipeline  1"},
		{"pipeline", declared("p").Pipeline, "p:p1", "first", "source src 0"},
		{"processor of a destination", declared("p").Pipeline, "p:dst:d1", "refused", "destination's processors dst 1"},
		{"processor of a destination", declared("p").Pipeline, "p:dst:d1", "first", "source src 0 only dst"},
		{"destination", declared("p").Pipeline, "p:dst", "refused", "destination dst 0"},
		{"destination", declared("p").Pipeline, "p:dst", "first", "source src 0 only dst"},
		{"another order", reordered, "p:p1", "refused", "pipeline  1"},
		{"another order", reordered, "p:p0", "refused", "pipeline  2"},
		{"another order", reordered, "p:p0", "", "pipeline  2"},
		{"gone", gone, "p:p1", "", "pipeline  1"},
		{"gone", gone, "p:p1", "refused", `pipeline p no longer has the processor "p1", which refused it; give a ` +
			`processor this id, replay from the first processor (--from first), or leave out --from`},
		{"gone", gone, "p:p1", "first", "source src 0"},
		{"gone destination", bare, "p:dst", "refused", `pipeline p no longer has a connector "dst"; give one this id`},
		{"gone processor of a source", bare, "p:src:s1", "refused", `no longer has a connector "src"`},
		{"gone source", *renamed, "p:dst", "first", `pipeline p no longer has a source "src"; give a source this id`},
	} {
		s := openStore(t, deadletter.Limits{})
		keep(t, s, declared("p"), withOriginal(1, c.by))
		all, _ := selected(t, s, spec.ReplayRequest{All: true})
		got, err := deadletter.Enter(&c.pipeline, &all[0], c.from)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s, by %s, from %q: %s, want %s", c.name, c.by, c.from, got, c.want)
		}
		want := *withOriginal(1, c.by).Original
		if err == nil && c.from == "first" && !sameRecord(all[0].Record, want) {
			t.Errorf("%s: the record is %v", c.name, all[0].Record)
		}
	}
}

// A replay from the first processor needs the record as it was read.
func TestReplayFromFirstThatCannotBe(t *testing.T) {
	s := openStore(t, deadletter.Limits{})
	keep(t, s, declared("p"), deadLetter(1, "p:dst", "no"), withOriginal(2, "p:dst"))
	if _, err := s.Edit(t.Context(), "p", 2, &record.Record{Position: record.Position("2")}); err != nil {
		t.Fatal(err)
	}
	all, _ := selected(t, s, spec.ReplayRequest{All: true})
	for i, want := range []string{"cannot replay dead letter 1 from the first processor: the record as it was read " +
		"was not kept; replay it from the stage that refused it (--from refused), and set keep-original: true",
		"cannot replay dead letter 2 from the first processor: it was edited"} {
		p := declared("p").Pipeline
		if _, err := deadletter.Enter(&p, &all[i], spec.ReplayFromFirst); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
