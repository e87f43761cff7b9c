package processor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// scripted is a processor whose Process is a function.
type scripted struct {
	sdk.ProcessorBase
	process  func(ctx context.Context, b *sdk.ProcessBatch) error
	deadline func() time.Time
	ended    *int
}

func (s *scripted) Parameters() sdk.Parameters                         { return sdk.Parameters{"any": {}} }
func (s *scripted) Configure(context.Context, map[string]string) error { return nil }
func (s *scripted) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return s.process(ctx, b)
}
func (s *scripted) Deadline() time.Time {
	if s.deadline == nil {
		return time.Time{}
	}
	return s.deadline()
}
func (s *scripted) Teardown(context.Context) error {
	if s.ended != nil {
		*s.ended++
	}
	return nil
}

type stage struct {
	name, condition string
	workers         int
	timed           func() time.Time
	stateful        bool
	ended           *int
	process         func(ctx context.Context, b *sdk.ProcessBatch) error
}

// chainOf opens a chain of the stages.
func chainOf(t interface {
	Helper()
	Fatal(...any)
}, o processor.Options, stages ...stage) *processor.Chain {
	t.Helper()
	o.Registry = &processor.Registry{}
	var declared []spec.Processor
	for _, s := range stages {
		o.Registry.Builtin = append(o.Registry.Builtin, sdk.ProcessorPlugin{
			Name: s.name, Version: "v1.0.0", Stateful: s.stateful,
			New: func() sdk.Processor { return &scripted{process: s.process, deadline: s.timed, ended: s.ended} },
		})
		declared = append(declared, spec.Processor{ID: s.name, Plugin: s.name, Condition: s.condition,
			Workers: s.workers})
	}
	c, err := processor.Open(context.Background(), "p", declared, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// each makes a Process function that calls do for each record.
func each(do func(b *sdk.ProcessBatch, i int, r *record.Record)) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			do(b, i, b.Record(i))
		}
		return nil
	}
}

func recordsOf(texts ...string) []record.Record {
	records := make([]record.Record, len(texts))
	for i, text := range texts {
		records[i] = record.Record{Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate,
			After: record.Raw([]byte(text))}
	}
	return records
}

func text(r record.Record) string { b, _ := r.After.Raw(); return string(b) }

func texts(records []record.Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, text(r))
	}
	return out
}

func pieces(r record.Record, n int) []record.Record {
	out := make([]record.Record, n)
	for i := range out {
		out[i] = r.Clone()
		out[i].After = record.Raw(fmt.Appendf(nil, "%s%d", text(r), i))
	}
	return out
}

var (
	upper = stage{name: "upper", process: each(func(_ *sdk.ProcessBatch, _ int, r *record.Record) {
		r.After = record.Raw([]byte(strings.ToUpper(text(*r))))
	})}
	dropB = stage{name: "drop", process: each(func(b *sdk.ProcessBatch, i int, r *record.Record) {
		if strings.HasPrefix(strings.ToLower(text(*r)), "b") {
			b.Filter(i)
		}
	})}
	split = stage{name: "split", condition: `{{ hasPrefix "s" (toString .Payload.After) }}`,
		process: each(func(b *sdk.ProcessBatch, i int, r *record.Record) {
			b.Replace(i, pieces(*r, 2))
		})}
	refuse1 = stage{name: "refuse", process: each(func(b *sdk.ProcessBatch, i int, r *record.Record) {
		if strings.HasSuffix(text(*r), "1") {
			b.Refuse(i, errors.New("ends in 1"))
		}
	})}
)

func TestChainKeepsOrderAndOrigins(t *testing.T) {
	c := chainOf(t, processor.Options{}, dropB, split, upper)
	out, err := c.Process(context.Background(), 1, recordsOf("a", "b", "s", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A", "S0", "S1", "C"}, texts(out.Records)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if want := []int32{0, 2, 2, 3}; !slices.Equal(out.Origins, want) {
		t.Errorf("origins %v, want %v", out.Origins, want)
	}
	for i, r := range out.Records {
		if string(r.Position) != fmt.Sprint(out.Origins[i]) {
			t.Errorf("record %d has position %q, its origin is %d", i, r.Position, out.Origins[i])
		}
	}
}

func TestChainReusesBatch(t *testing.T) {
	c := chainOf(t, processor.Options{}, upper)
	in := recordsOf("a", "b")
	out, err := c.Process(context.Background(), 1, in)
	if err != nil || out.Origins != nil || &out.Records[0] != &in[0] {
		t.Errorf("%+v, %v; want the records given", out, err)
	}
}

func TestRefusedPieceSendsWhatWasSplit(t *testing.T) {
	c := chainOf(t, processor.Options{}, dropB, split, upper, refuse1)
	in := recordsOf("b", "s", "c1", "d")
	out, err := c.Process(context.Background(), 1, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"D"}, texts(out.Records)); diff != "" {
		t.Errorf("records that go on (-want +got):\n%s", diff)
	}
	var got []string
	for _, r := range out.Refused {
		got = append(got, fmt.Sprintf("%d %s %s %v", r.Index, text(r.Record), r.Processor, r.Err))
	}
	want := []string{"1 s p:refuse ends in 1", "2 C1 p:refuse ends in 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if text(in[1]) != "s" {
		t.Errorf("the record that was split is now %q", text(in[1]))
	}
}

func TestFailedConditionRefusesRecord(t *testing.T) {
	s := upper
	s.condition = `{{ eq .Payload.After 1 }}`
	c := chainOf(t, processor.Options{}, s)
	out, err := c.Process(context.Background(), 1, recordsOf("a", "b"))
	if err != nil || len(out.Refused) != 2 || len(out.Records) != 0 || text(out.Refused[0].Record) != "a" {
		t.Errorf("%+v, %v", out, err)
	}
}

// gather holds n records and then emits them as one.
func gather(name string, n int) stage {
	var held []sdk.Held
	var joined string
	return stage{name: name, stateful: true, process: each(func(b *sdk.ProcessBatch, i int, r *record.Record) {
		held, joined = append(held, b.Hold(i)), joined+text(*r)
		if len(held) == n {
			b.Emit(sdk.Emission{Records: recordsOf(joined), Settles: held})
			held, joined = nil, ""
		}
	})}
}

func TestHeldRecordsSettleWithTheirResults(t *testing.T) {
	c := chainOf(t, processor.Options{}, gather("pairs", 2), gather("quads", 2), upper)
	process := func(token any, in ...string) connector.Outcome {
		t.Helper()
		out, err := c.Process(context.Background(), token, recordsOf(in...))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := process("one", "a", "b", "c")
	if len(out.Records) > 0 || len(out.Emitted) > 0 || !slices.Equal(out.Held, []int32{0, 1, 2}) || c.Holding() != 2 {
		t.Errorf("after three: %+v, holding %d; want them held", out, c.Holding())
	}
	out = process("two", "d", "e")
	want := []sdk.Emission{{Settles: []sdk.Held{{Batch: "one", Index: 0}, {Batch: "one", Index: 1},
		{Batch: "one", Index: 2}, {Batch: "two", Index: 0}}}}
	if len(out.Emitted) != 1 || fmt.Sprint(texts(out.Emitted[0].Records)) != "[ABCD]" {
		t.Fatalf("emitted %+v, want ABCD", out.Emitted)
	}
	if diff := cmp.Diff(want[0].Settles, out.Emitted[0].Settles); diff != "" {
		t.Errorf("settles (-want +got):\n%s", diff)
	}
	if c.Holding() != 1 {
		t.Errorf("holding %d, want 1", c.Holding())
	}
}

func TestRefusedEmissionNamesItsRecords(t *testing.T) {
	c := chainOf(t, processor.Options{}, gather("pairs", 2), refuse1)
	out, err := c.Process(context.Background(), "one", recordsOf("a", "1", "c"))
	if err != nil || len(out.Emitted) > 0 || len(out.Refused) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if r := out.Refused[0]; r.Index != -1 || text(r.Record) != "a1" ||
		!slices.Equal(r.Settles, []sdk.Held{{Batch: "one", Index: 0}, {Batch: "one", Index: 1}}) {
		t.Errorf("refused %+v", r)
	}
}

func TestTimedProcessorEmitsWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []sdk.Held
		due := time.Now().Add(time.Minute)
		c := chainOf(t, processor.Options{}, stage{name: "timed", stateful: true, timed: func() time.Time {
			return due
		}, process: func(_ context.Context, b *sdk.ProcessBatch) error {
			for i := range b.Len() {
				held = append(held, b.Hold(i))
			}
			if !time.Now().Before(due) {
				b.Emit(sdk.Emission{Settles: held})
			}
			return nil
		}})
		if !c.Deadline().Equal(due) {
			t.Errorf("deadline %v, want %v", c.Deadline(), due)
		}
		for _, in := range [][]record.Record{recordsOf("a"), nil} {
			if out, err := c.Process(context.Background(), "one", in); err != nil || len(out.Emitted) > 0 {
				t.Errorf("before the deadline: %+v, %v", out, err)
			}
		}
		time.Sleep(time.Minute)
		out, err := c.Process(context.Background(), nil, nil)
		if err != nil || len(out.Emitted) != 1 ||
			!slices.Equal(out.Emitted[0].Settles, []sdk.Held{{Batch: "one", Index: 0}}) {
			t.Errorf("after it: %+v, %v", out, err)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	c := chainOf(t, processor.Options{}, stage{name: "bad", process: func(context.Context, *sdk.ProcessBatch) error {
		panic("boom")
	}})
	_, err := c.Process(context.Background(), 1, recordsOf("a"))
	if err == nil || !strings.Contains(err.Error(), "cannot process records with p:bad: panic: boom") {
		t.Errorf("%v", err)
	}
}

func TestProcessorThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, release := 0, make(chan struct{})
		c := chainOf(t, processor.Options{Timeout: time.Minute}, stage{name: "slow", ended: &ended,
			process: func(context.Context, *sdk.ProcessBatch) error { <-release; return nil }})
		start := time.Now()
		_, err := c.Process(context.Background(), 1, recordsOf("a"))
		if err == nil || !strings.Contains(err.Error(), "it took longer than 1m0s (processors.timeout)") {
			t.Errorf("%v", err)
		}
		if d := time.Since(start); d > time.Minute+10*time.Second {
			t.Errorf("returned after %s", d)
		}
		if err := c.Teardown(context.Background()); err != nil || ended != 0 {
			t.Errorf("Teardown during Process: %d times, %v", ended, err)
		}
		close(release)
		synctest.Wait()
		if ended != 1 {
			t.Errorf("Teardown was called %d times after Process returned", ended)
		}
	})
}

func TestCooperativeProcessorIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		c := chainOf(t, processor.Options{Timeout: time.Minute}, stage{name: "slow", ended: &ended,
			process: func(ctx context.Context, _ *sdk.ProcessBatch) error { <-ctx.Done(); return ctx.Err() }})
		if _, err := c.Process(context.Background(), 1, recordsOf("a")); err == nil ||
			!strings.Contains(err.Error(), "processors.timeout") {
			t.Errorf("%v", err)
		}
		if err := c.Teardown(context.Background()); err != nil || ended != 1 {
			t.Errorf("Teardown: %d times, %v", ended, err)
		}
	})
}

func TestWorkersKeepTheOrder(t *testing.T) {
	s := upper
	s.workers = 4
	d, r := dropB, refuse1
	d.workers, r.workers = 3, 2
	c := chainOf(t, processor.Options{}, d, s, r)
	var in, want []string
	for i := range 1000 {
		if in = append(in, fmt.Sprintf("%c%d", 'a'+i%3, i)); i%3 != 1 && i%10 != 1 {
			want = append(want, strings.ToUpper(in[i]))
		}
	}
	out, err := c.Process(context.Background(), 1, recordsOf(in...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(out.Records)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(out.Refused)+len(out.Records) != 667 {
		t.Errorf("%d refused and %d go on, of 667", len(out.Refused), len(out.Records))
	}
}

func TestStatefulProcessorsRefuseWorkers(t *testing.T) {
	r := &processor.Registry{Builtin: []sdk.ProcessorPlugin{{Name: "state", Version: "v1.0.0", Stateful: true,
		New: func() sdk.Processor { return &scripted{} }}}}
	_, err := processor.Open(context.Background(), "p", []spec.Processor{{ID: "x", Plugin: "state", Workers: 2}},
		processor.Options{Registry: r})
	if err == nil || !strings.Contains(err.Error(), "cannot have 2 workers") {
		t.Errorf("%v", err)
	}
}

// A faulty declaration is not retried; a missing plugin is, because it may appear.
func TestWrongDeclarationsArePermanent(t *testing.T) {
	r := &processor.Registry{Builtin: []sdk.ProcessorPlugin{{Name: "state", Version: "v1.0.0", Stateful: true,
		New: func() sdk.Processor { return &scripted{} }}}}
	for name, c := range map[string]struct {
		declared spec.Processor
		want     bool
	}{
		"workers":   {spec.Processor{ID: "x", Plugin: "state", Workers: 2}, true},
		"condition": {spec.Processor{ID: "x", Plugin: "state", Condition: "{{ no }}"}, true},
		"plugin":    {spec.Processor{ID: "x", Plugin: "none"}, false},
	} {
		_, err := processor.Open(t.Context(), "p", []spec.Processor{c.declared}, processor.Options{Registry: r})
		var p interface{ Permanent() bool }
		if got := errors.As(err, &p) && p.Permanent(); err == nil || got != c.want {
			t.Errorf("%s: permanent is %v, want %v: %v", name, got, c.want, err)
		}
	}
}

// schemaIsDecodedAndFollowsTheShapeCases are the cases of TestSchemaIsDecodedAndFollowsTheShape.
var schemaIsDecodedAndFollowsTheShapeCases = []struct {
	field   string
	value   any
	version string
	want    string // resulting version; empty: no schema, "error": refused
}{
	{"b", nil, "1", "1"},
	{"b", "text", "1", "2"},
	{"b", "other", "1", "2"},
	{"c", true, "1", "3"},
	{"not a name", 1, "1", ""},
	{"b", "x", "9", "error"},
}

func TestSchemaIsDecodedAndFollowsTheShape(t *testing.T) {
	ctx, registry := context.Background(), &schema.Memory{}
	before := map[string]any{"a": int64(1)}
	avro, err := schema.Infer(before)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Create(ctx, "s", schema.TypeAvro, avro); err != nil {
		t.Fatal(err)
	}
	encoded := func(version string) record.Record {
		r := record.Record{Position: record.Position("p"), After: record.Structured(map[string]any{"a": int64(1)})}
		r.Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
			record.KeyPayloadSchemaVersion: "1"})
		if err := (&schema.Cache{Registry: registry}).EncodeRecord(ctx, &r, schema.Parts{Payload: true}); err != nil {
			t.Fatal(err)
		}
		r.Metadata.Set(record.KeyPayloadSchemaVersion, version)
		return r
	}
	add := func(name string, v any) stage {
		return stage{name: "add", condition: `{{ eq .Payload.After.a 1 }}`,
			process: each(func(_ *sdk.ProcessBatch, _ int, r *record.Record) {
				m, _ := r.After.Structured()
				if v != nil {
					m[name] = v
				}
			})}
	}
	for _, c := range schemaIsDecodedAndFollowsTheShapeCases {
		chain := chainOf(t, processor.Options{Schemas: registry}, add(c.field, c.value))
		out, err := chain.Process(ctx, 1, []record.Record{encoded(c.version)})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "error" {
			if len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(),
				"cannot get version 9 of schema") {
				t.Errorf("unknown version: %+v", out)
			}
			continue
		}
		if len(out.Records) != 1 {
			t.Fatalf("%s: %+v", c.field, out)
		}
		r := out.Records[0]
		if got := r.Metadata.Get(record.KeyPayloadSchemaVersion); got != c.want {
			t.Errorf("with %s=%v the version is %q, want %q", c.field, c.value, got, c.want)
		}
		if c.want != "" {
			if err := (&schema.Cache{Registry: registry}).EncodeRecord(ctx, &r,
				schema.Parts{Payload: true}); err != nil {
				t.Errorf("the record does not fit the schema it names: %v", err)
			}
		}
	}
}

func TestStatsAndTaps(t *testing.T) {
	stats, seen := &processor.Stats{}, []string{}
	o := processor.Options{
		Stats: func(string, string) *processor.Stats { return stats },
		Tap: func(id string, out bool, records []record.Record) {
			seen = append(seen, fmt.Sprintf("%s %t %s", id, out, texts(records)))
		},
	}
	c := chainOf(t, o, refuse1)
	if _, err := c.Process(context.Background(), 1, recordsOf("a", "b1", "c")); err != nil {
		t.Fatal(err)
	}
	if in, out, refused := stats.In.Load(), stats.Out.Load(), stats.Refused.Load(); in != 3 || out != 2 ||
		stats.Accepted.Load() != 2 ||
		refused != 1 {
		t.Errorf("in %d, out %d, refused %d", in, out, refused)
	}
	if diff := cmp.Diff([]string{"p:refuse false [a b1 c]", "p:refuse true [a c]"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNothingIsLostInAnyChain runs random chains over random batches and settles the results like the engine: in the
// end every record is settled exactly once.
func TestNothingIsLostInAnyChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 5).Draw(t, "stages")
		flushing, stages := false, []stage{}
		for n, kind := range kinds {
			stages = append(stages, randomStage(t, n, kind, &flushing))
		}
		l := &ledger{T: t, chain: chainOf(t, processor.Options{}, stages...), all: map[sdk.Held]bool{},
			live: map[sdk.Held]int{}, ended: map[sdk.Held]bool{}}
		for token := range rapid.IntRange(1, 6).Draw(t, "batches") {
			l.process(token, rapid.IntRange(0, 4).Draw(t, "records"))
			for h := range l.all {
				if !l.ended[h] && l.chain.Holding() == 0 {
					t.Fatalf("%v is not settled although nothing is held", h)
				}
			}
		}
		flushing = true
		for range stages {
			l.process(100, 0)
		}
		for h := range l.all {
			if !l.ended[h] {
				t.Errorf("%v is never settled", h)
			}
		}
		if l.chain.Holding() != 0 {
			t.Errorf("holding %d at the end", l.chain.Holding())
		}
	})
}

// ledger tracks the fate that a chain reports for each record.
type ledger struct {
	*rapid.T
	chain *processor.Chain
	all   map[sdk.Held]bool
	live  map[sdk.Held]int  // pieces not settled
	ended map[sdk.Held]bool // settled
}

func (l *ledger) settle(h sdk.Held) {
	if l.live[h]--; l.live[h] == 0 {
		l.ended[h] = true
	}
	if l.live[h] < 0 {
		l.Fatalf("%v is settled too often", h)
	}
}

// process makes the chain process a batch of n records.
func (l *ledger) process(token, n int) {
	out, err := l.chain.Process(context.Background(), token, recordsOf(make([]string, n)...))
	if err != nil {
		l.Fatal(err)
	}
	occurs := out.Origins
	for i := range n {
		l.all[sdk.Held{Batch: token, Index: int32(i)}] = true
		if out.Origins == nil {
			occurs = append(occurs, int32(i))
		}
	}
	for _, i := range append(slices.Clone(occurs), out.Held...) {
		l.live[sdk.Held{Batch: token, Index: i}]++
	}
	for _, r := range out.Refused {
		for _, h := range r.Settles {
			l.ended[h] = true
		}
		if r.Index >= 0 {
			l.ended[sdk.Held{Batch: token, Index: r.Index}] = true
		}
	}
	for i := range n { // filtered
		if h := (sdk.Held{Batch: token, Index: int32(i)}); l.live[h] == 0 {
			l.ended[h] = true
		}
	}
	for _, i := range occurs {
		l.settle(sdk.Held{Batch: token, Index: i})
	}
	for _, e := range out.Emitted {
		for _, h := range e.Settles {
			l.settle(h)
		}
	}
}

// randomStage keeps, filters, refuses, splits or holds records at random. A holding stage emits at random, and emits
// everything when flushing.
func randomStage(t *rapid.T, n, kind int, flushing *bool) stage {
	var held []sdk.Held
	pick := func(label string) bool { return !*flushing && rapid.IntRange(0, 2).Draw(t, label) == 0 }
	return stage{name: fmt.Sprintf("s%d", n), stateful: true, timed: func() time.Time {
		return time.Now().Add(-time.Second)
	}, process: func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			switch {
			case kind == 1 && pick("filter"):
				b.Filter(i)
			case kind == 2 && pick("refuse"):
				b.Refuse(i, errors.New("refused"))
			case kind == 3:
				b.Replace(i, make([]record.Record, rapid.IntRange(0, 3).Draw(t, "pieces")))
			case kind == 4 && !*flushing:
				held = append(held, b.Hold(i))
			}
		}
		if len(held) > 0 && (*flushing || pick("emit")) {
			b.Emit(sdk.Emission{Records: make([]record.Record, rapid.IntRange(0, 2).Draw(t, "emitted")), Settles: held})
			held = nil
		}
		return nil
	}}
}
