package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// script is a processor whose Process is a function of the test.
type script struct {
	sdk.ProcessorBase
	process  func(ctx context.Context, b *sdk.ProcessBatch) error
	deadline func() time.Time
}

func (*script) Parameters() sdk.Parameters                         { return nil }
func (*script) Configure(context.Context, map[string]string) error { return nil }
func (s *script) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return s.process(ctx, b)
}
func (s *script) Deadline() time.Time {
	if s.deadline == nil {
		return time.Time{}
	}
	return s.deadline()
}

// processor declares a processor that runs process at a place: "" for the pipeline, or a connector.
func (w *world) processor(at, id string, process func(ctx context.Context, b *sdk.ProcessBatch) error) {
	w.scripted(at, id, func() sdk.Processor { return &script{process: process} })
}

func (w *world) scripted(at, id string, make func() sdk.Processor) {
	w.plugins.processors[id] = make
	p := spec.Processor{ID: id, Plugin: id}
	if at == "" {
		w.spec.Processors = append(w.spec.Processors, p)
		return
	}
	i := slices.IndexFunc(w.spec.Connectors, func(c spec.Connector) bool { return c.ID == at })
	w.spec.Connectors[i].Processors = append(w.spec.Connectors[i].Processors, p)
}

// eachValue makes a processor that calls do for each record and its number.
func eachValue(do func(b *sdk.ProcessBatch, i, v int)) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			do(b, i, values([]record.Record{*b.Record(i)})[0])
		}
		return nil
	}
}

// sieve drops multiples of three and refuses multiples of five.
var sieve = eachValue(func(b *sdk.ProcessBatch, i, v int) {
	switch {
	case v%3 == 0:
		b.Filter(i)
	case v%5 == 0:
		b.Refuse(i, errors.New("multiple of five"))
	}
})

// split makes n pieces of each record, numbered in their metadata.
func split(n int) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			pieces := make([]record.Record, n)
			for p := range pieces {
				pieces[p] = b.Record(i).Clone()
				pieces[p].Metadata.Set("piece", fmt.Sprint(p+1))
			}
			b.Replace(i, pieces)
		}
		return nil
	}
}

func piece(r record.Record) string { return r.Metadata.Get("piece") }

// deadLetters returns a text for each dead letter in the queue: the number of the record, the stage that refused it,
// the error, and the index of the piece.
func (w *world) deadLetters() (all []string) {
	for _, r := range w.queue.records() {
		_, pos, _ := strings.Cut(string(r.Position), "/")
		m, _ := r.After.Structured()
		md, _ := m["metadata"].(map[string]any)
		all = append(all, fmt.Sprintf("%s by %s: %s (piece %v)", pos, r.Metadata.Get(record.KeyDLQNackNodeID),
			r.Metadata.Get(record.KeyDLQNackError), md["piece"]))
	}
	return all
}

func wantStrings(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestProcessorsDropAndRefuse(t *testing.T) {
	for _, at := range []string{"", "src", "dst"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			s := w.source("src", 300)
			d := w.destination("dst", &fakeDestination{async: true})
			w.processor(at, "sieve", sieve)
			if err := w.run(func() bool { return s.ackedUpTo() == 300 }); err != nil {
				t.Fatal(err)
			}
			var kept []int
			var refused []string
			id := "p:sieve"
			if at != "" {
				id = "p:" + at + ":sieve"
			}
			for _, v := range upTo(300) {
				switch {
				case v%3 == 0:
				case v%5 == 0:
					refused = append(refused, fmt.Sprintf("%d by %s: multiple of five (piece <nil>)", v, id))
				default:
					kept = append(kept, v)
				}
			}
			wantValues(t, d.records(), kept)
			wantStrings(t, "dead letters", w.deadLetters(), refused)
		})
	}
}

// The last error of each processor is known without secrets, and forgotten once the pipeline has no such processor.
func TestRefusalsOfProcessors(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize = 0
	w.stats = &measure.Pipeline{}
	w.stats.Refusals("p:gone").Note("no", time.Now())
	w.redact = func(err error) error {
		if err == nil {
			return nil
		}
		return errors.New(strings.ReplaceAll(err.Error(), "hunter2", "***"))
	}
	s := w.source("src", 10)
	w.destination("dst", &fakeDestination{})
	refuses := func(divisor int) func(context.Context, *sdk.ProcessBatch) error {
		return eachValue(func(b *sdk.ProcessBatch, i, v int) {
			if v%divisor == 0 {
				b.Refuse(i, fmt.Errorf("hunter2 does not like %d", v))
			}
		})
	}
	w.processor("", "three", refuses(3))
	w.processor("dst", "five", refuses(5))
	w.processor("src", "eleven", refuses(11))
	if err := w.run(func() bool { return s.ackedUpTo() == 10 }); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"p:three": "*** does not like 9", "p:dst:five": "*** does not like 10",
		"p:src:eleven": "", "p:gone": ""} {
		got := ""
		if r := w.stats.Refusals(id).Get(); r != nil {
			got = r.Text
		}
		if got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// Records pass the processors of their source, of the pipeline, and of each destination; other destinations do not see
// the latter.
func TestProcessorsRunInOrder(t *testing.T) {
	w := newWorld(t)
	s, other := w.source("src", 50), w.source("other", 50)
	a, b := w.destination("a", &fakeDestination{}), w.destination("b", &fakeDestination{})
	mark := func(id string) func(context.Context, *sdk.ProcessBatch) error {
		return eachValue(func(b *sdk.ProcessBatch, i, _ int) {
			r := b.Record(i)
			r.Metadata.Set("path", r.Metadata.Get("path")+id+" ")
		})
	}
	for _, at := range []string{"src", "", "a"} {
		for _, id := range []string{"1", "2"} {
			w.processor(at, at+id, mark(at+id))
		}
	}
	w.processor("a", "odd", eachValue(func(b *sdk.ProcessBatch, i, v int) {
		if v%2 == 0 {
			b.Filter(i)
		}
	}))
	if err := w.run(func() bool { return s.ackedUpTo() == 50 && other.ackedUpTo() == 50 }); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		d      *fakeDestination
		source string
		want   string
		n      int
	}{{a, "p:src", "src1 src2 1 2 a1 a2 ", 25}, {a, "p:other", "1 2 a1 a2 ", 25}, {b, "p:src", "src1 src2 1 2 ", 50},
		{b, "p:other", "1 2 ", 50}} {
		n := 0
		for _, r := range test.d.records() {
			if key, _ := r.Key.Raw(); string(key) != test.source {
				continue
			}
			if n++; r.Metadata.Get("path") != test.want {
				t.Fatalf("a record of %s came by %q, want %q", test.source, r.Metadata.Get("path"), test.want)
			}
		}
		if n != test.n {
			t.Errorf("%d records of %s, want %d", n, test.source, test.n)
		}
	}
}

// A refused piece sends the record that was split to the dead-letter queue, once and unchanged.
func TestRefusedPieces(t *testing.T) {
	for name, test := range refusedPieces {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			s := w.source("src", 20)
			d := w.destination("dst", &fakeDestination{})
			test.build(w)
			if err := w.run(func() bool { return s.ackedUpTo() == 20 }); err != nil {
				t.Fatal(err)
			}
			wantStrings(t, "dead letters", w.deadLetters(), test.want)
			wantPieces(t, d.records(), test.lacks)
		})
	}
}

// refusedPieces are pipelines that refuse pieces of record 2.
var refusedPieces = map[string]struct {
	build func(w *world)
	want  []string
	lacks []string // pieces of record 2 that do not arrive at dst
}{
	"by the destination": {func(w *world) {
		w.processor("", "split", split(3))
		w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refusePieces(2, "2")
	}, []string{"2 by p:dst-acker: piece 2 of 3: no (piece <nil>)"}, []string{"2"}},
	"by the destination, all": {func(w *world) {
		w.processor("src", "split", split(3))
		w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refusePieces(2, "123")
	}, []string{"2 by p:dst-acker: piece 1 of 3: no (piece <nil>)"}, []string{"1", "2", "3"}},
	"by a later processor of the chain": {func(w *world) {
		w.processor("", "split", split(3))
		w.processor("", "deny", denyPieces(2, "23"))
	}, []string{"2 by p:deny: no (piece <nil>)"}, []string{"1", "2", "3"}},
	"by the chain of the pipeline": {func(w *world) {
		w.processor("src", "split", split(3))
		w.processor("", "deny", denyPieces(2, "3"))
	}, []string{"2 by p:deny: no (piece <nil>)"}, []string{"1", "2", "3"}},
	"by the chain of the destination": {func(w *world) {
		w.processor("src", "split", split(3))
		w.processor("dst", "deny", denyPieces(2, "1"))
	}, []string{"2 by p:dst:deny: no (piece <nil>)"}, []string{"1", "2", "3"}},
	"split before the destination": {func(w *world) {
		w.processor("dst", "split", split(3))
		w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refusePieces(2, "3")
	}, []string{"2 by p:dst-acker: piece 3 of 3: no (piece <nil>)"}, []string{"3"}},
	"one piece, as it was changed": {func(w *world) {
		w.processor("src", "split", split(1))
		w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refusePieces(2, "1")
	}, []string{"2 by p:dst-acker: no (piece 1)"}, []string{"1"}},
}

// refusePieces returns a function that refuses the pieces of record v whose numbers are in which.
func refusePieces(v int, which string) func(record.Record) error {
	return func(r record.Record) error {
		if values([]record.Record{r})[0] == v && strings.Contains(which, piece(r)) {
			return errors.New("no")
		}
		return nil
	}
}

// denyPieces is a processor with the same effect.
func denyPieces(v int, which string) func(context.Context, *sdk.ProcessBatch) error {
	return eachValue(func(b *sdk.ProcessBatch, i, n int) {
		if err := refusePieces(v, which)(*b.Record(i)); err != nil {
			b.Refuse(i, err)
		}
	})
}

// wantPieces checks that the same pieces of each of 20 records arrived, except some pieces of record 2.
func wantPieces(t *testing.T, records []record.Record, lacks []string) {
	t.Helper()
	got := map[int][]string{}
	for _, r := range records {
		v := values([]record.Record{r})[0]
		got[v] = append(got[v], piece(r))
	}
	all := got[1]
	for v := 1; v <= 20; v++ {
		want := all
		if v == 2 {
			want = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(lacks, p) })
		}
		if !slices.Equal(got[v], want) {
			t.Errorf("of record %d there are pieces %q, want %q", v, got[v], want)
		}
	}
}

// gather is a processor that holds records and emits n at a time as one, with the number of its inputs in the
// metadata.
type gather struct {
	sdk.ProcessorBase
	n        int
	every    time.Duration // emits the held records after this time, unless zero
	deadline time.Time
	held     []sdk.Held
	values   []string
}

func (*gather) Parameters() sdk.Parameters                         { return nil }
func (*gather) Configure(context.Context, map[string]string) error { return nil }
func (g *gather) Deadline() time.Time                              { return g.deadline }
func (g *gather) Process(_ context.Context, b *sdk.ProcessBatch) error {
	if g.every > 0 && len(g.held) > 0 && !time.Now().Before(g.deadline) {
		g.emit(b)
	}
	for i := range b.Len() {
		if len(g.held) == 0 && g.every > 0 {
			g.deadline = time.Now().Add(g.every)
		}
		g.values = append(g.values, fmt.Sprint(values([]record.Record{*b.Record(i)})[0]))
		if g.held = append(g.held, b.Hold(i)); len(g.held) == g.n {
			g.emit(b)
		}
	}
	return nil
}

func (g *gather) emit(b *sdk.ProcessBatch) {
	r := record.Record{Position: record.Position("made"), After: record.Raw([]byte(g.values[len(g.values)-1]))}
	r.Metadata.Set("of", strings.Join(g.values, " "))
	b.Emit(sdk.Emission{Records: []record.Record{r}, Settles: g.held})
	g.held, g.values, g.deadline = nil, nil, time.Time{}
}

func gathered(records []record.Record) (groups []string) {
	for _, r := range records {
		groups = append(groups, r.Metadata.Get("of"))
	}
	return groups
}

// Records that a processor holds are not acknowledged before their emission has arrived, and records that it holds at
// the end are read again.
func TestHeldRecords(t *testing.T) {
	for _, at := range []string{"src", "", "dst"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 47)
			d := w.destination("dst", &fakeDestination{})
			w.scripted(at, "gather", func() sdk.Processor { return &gather{n: 10} })
			if err := w.run(func() bool { return s.ackedUpTo() == 40 }); err != nil {
				t.Fatal(err)
			}
			if s.ackedUpTo() != 40 || w.store.saved("p:src") != 40 {
				t.Errorf("acknowledged up to %d, saved %d, want 40", s.ackedUpTo(), w.store.saved("p:src"))
			}
			s = w.source("src", 60)
			if err := w.run(func() bool { return s.ackedUpTo() == 60 }); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := range 6 {
				want = append(want, strings.Trim(fmt.Sprint(upTo(10*i + 10)[10*i:]), "[]"))
			}
			wantStrings(t, "gathered", gathered(d.records()), want)
		})
	}
}

// A processor emits records at its deadline even if no record arrives.
func TestHeldRecordsGoByTime(t *testing.T) {
	for _, at := range []string{"src", "", "dst"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWorldUntil(ctx, t, time.Millisecond)
				s := w.source("src", 5)
				d := w.destination("dst", &fakeDestination{})
				w.scripted(at, "gather", func() sdk.Processor { return &gather{n: 10, every: 3 * time.Second} })
				start := time.Now()
				if err := w.run(func() bool { return s.ackedUpTo() == 5 }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start).Round(100 * time.Millisecond); took != 3*time.Second {
					t.Errorf("it took %v", took)
				}
				wantStrings(t, "gathered", gathered(d.records()), []string{"1 2 3 4 5"})
			})
		})
	}
}

// When an emission of held records is refused, all held records go to the dead-letter queue.
func TestRefusedEmission(t *testing.T) {
	refuse := func(r record.Record) error {
		if r.Metadata.Get("of") == "4 5 6" {
			return errors.New("no")
		}
		return nil
	}
	tests := map[string]struct {
		at   string
		who  string
		more func(w *world)
	}{
		"of a source, by the destination": {"src", "p:dst-acker", func(w *world) {
			w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refuse
		}},
		"of the pipeline, by it": {"", "p:dst-acker", func(w *world) {
			w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refuse
		}},
		"of the destination, by it": {"dst", "p:dst-acker", func(w *world) {
			w.plugins.destinations["p:dst"].(*fakeDestination).refuse = refuse
		}},
		"of a source, by a later processor": {"src", "p:src:deny", func(w *world) {
			w.processor("src", "deny", denyAll(refuse))
		}},
		"of a source, by the pipeline": {"src", "p:deny", func(w *world) {
			w.processor("", "deny", denyAll(refuse))
		}},
		"of the pipeline, before the destination": {"", "p:dst:deny", func(w *world) {
			w.processor("dst", "deny", denyAll(refuse))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			s := w.source("src", 9)
			d := w.destination("dst", &fakeDestination{})
			w.scripted(test.at, "gather", func() sdk.Processor { return &gather{n: 3} })
			test.more(w)
			if err := w.run(func() bool { return s.ackedUpTo() == 9 }); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, v := range []int{4, 5, 6} {
				want = append(want, fmt.Sprintf("%d by %s: the record joined from this one and 2 others: no (piece "+
					"<nil>)",
					v, test.who))
			}
			wantStrings(t, "dead letters", w.deadLetters(), want)
			wantStrings(t, "gathered", gathered(d.records()), []string{"1 2 3", "7 8 9"})
		})
	}
}

func denyAll(refuse func(record.Record) error) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			if err := refuse(*b.Record(i)); err != nil {
				b.Refuse(i, err)
			}
		}
		return nil
	}
}

// witness is a processor that observes commits.
type witness struct {
	sdk.ProcessorBase
	mu      *sync.Mutex
	batches map[any]int // number of records by token
	covered *int        // number of records in committed batches
}

func (*witness) Parameters() sdk.Parameters                         { return nil }
func (*witness) Configure(context.Context, map[string]string) error { return nil }
func (w *witness) Process(_ context.Context, b *sdk.ProcessBatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches[b.Token()] = b.Len()
	return nil
}

func (w *witness) Committed(_ context.Context, tokens []any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, token := range tokens {
		n, ok := w.batches[token]
		if !ok {
			return errors.New("a batch that it has not seen, or a second time")
		}
		delete(w.batches, token)
		*w.covered += n
	}
	return nil
}

func TestProcessorsLearnWhatIsCommitted(t *testing.T) {
	for _, at := range []string{"src", "", "dst"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			s := w.source("src", 500)
			w.destination("dst", &fakeDestination{async: true})
			var mu sync.Mutex
			covered := 0
			w.scripted(at, "witness", func() sdk.Processor {
				return &witness{mu: &mu, batches: map[any]int{}, covered: &covered}
			})
			now := func() int { mu.Lock(); defer mu.Unlock(); return covered }
			if err := w.run(func() bool { return s.ackedUpTo() == 500 && now() > 0 }); err != nil {
				t.Fatal(err)
			}
			if now() != 500 {
				t.Errorf("%d records are known to be committed when the run has ended, want 500", now())
			}
		})
	}
}

// A processor that breaks, or does not return, ends its pipeline with an error that names it.
func TestProcessorsThatBreak(t *testing.T) {
	tests := map[string]struct {
		process func(never <-chan struct{}) error
		want    string
	}{
		"error": {func(<-chan struct{}) error { return errors.New("out of ink") }, "out of ink"},
		"panic": {func(<-chan struct{}) error { panic("ouch") }, "ouch"},
		"hang": {func(never <-chan struct{}) error {
			<-never
			return nil
		}, "it took longer than 20ms (processors.timeout)"},
	}
	for name, test := range tests {
		for _, at := range []string{"src", "", "dst"} {
			inVirtualTime(t, name+" at "+at, func(t *testing.T) {
				never := make(chan struct{})
				t.Cleanup(func() { close(never) })
				w := newWorld(t)
				if w.plugins.options.Timeout = wait.Limit; name == "hang" {
					w.plugins.options.Timeout = 20 * time.Millisecond
				}
				s := w.source("src", 5)
				w.destination("dst", &fakeDestination{})
				w.processor(at, "x", func(context.Context, *sdk.ProcessBatch) error { return test.process(never) })
				err := w.run(func() bool { return false })
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ":x: ") {
					t.Errorf("run ended with %v", err)
				}
				if s.ackedUpTo() != 0 {
					t.Errorf("acknowledged up to %d", s.ackedUpTo())
				}
			})
		}
	}
}

// inVirtualTime runs a subtest in virtual time.
func inVirtualTime(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// If a processor holds more than may be outstanding, for ever, the run fails and does not hang.
func TestProcessorsThatHoldTooMuch(t *testing.T) {
	for _, at := range []string{"src", "", "dst"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			w.window.Unsettled = 50
			w.source("src", 1000)
			w.destination("dst", &fakeDestination{})
			w.scripted(at, "gather", func() sdk.Processor { return &gather{n: 100} })
			err := w.run(func() bool { return false })
			if err == nil || !strings.Contains(err.Error(), "processors hold as many records as may be in flight") {
				t.Errorf("run ended with %v", err)
			}
			wantPermanent(t, err)
		})
	}
}

// pacer is a processor that holds all records and releases some from time to time.
type pacer struct {
	sdk.ProcessorBase
	some    int
	every   time.Duration
	held    []sdk.Held
	records []record.Record
	due     time.Time
}

func (*pacer) Parameters() sdk.Parameters                         { return nil }
func (*pacer) Configure(context.Context, map[string]string) error { return nil }
func (p *pacer) Deadline() time.Time                              { return p.due }
func (p *pacer) Process(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		p.records = append(p.records, b.Record(i).Clone())
		p.held = append(p.held, b.Hold(i))
	}
	if n := min(p.some, len(p.held)); n > 0 && !time.Now().Before(p.due) && !p.due.IsZero() {
		for i := range n {
			b.Emit(sdk.Emission{Records: p.records[i : i+1 : i+1], Settles: p.held[i : i+1 : i+1]})
		}
		p.records, p.held, p.due = p.records[n:], p.held[n:], time.Time{}
	}
	switch {
	case len(p.held) == 0:
		p.due = time.Time{}
	case p.due.IsZero():
		p.due = time.Now().Add(p.every)
	}
	return nil
}

// A processor that releases records more slowly than they are read slows down the sources.
func TestProcessorsThatHoldSourcesBack(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"src", "", "dst"} {
		for _, sources := range []int{1, 2} {
			for _, some := range []int{7, 1000} { // a part of the window, and the whole window
				t.Run(fmt.Sprintf("%d sources, %d at a time at %s", sources, some, at), func(t *testing.T) {
					const window, total = 50, 1500
					w := newWorld(t)
					w.window.Unsettled = window
					var all []*fakeSource
					for i := range sources {
						all = append(all, w.source([]string{"src", "other"}[i], total))
					}
					d := w.destination("dst", &fakeDestination{async: true})
					w.destination("more", &fakeDestination{async: true})
					w.scripted(at, "pacer", func() sdk.Processor {
						return &pacer{some: some, every: 50 * time.Microsecond}
					})
					err := w.run(func() bool {
						return !slices.ContainsFunc(all, func(s *fakeSource) bool { return s.ackedUpTo() < total })
					})
					if err != nil {
						t.Fatal(err)
					}
					if n := len(d.records()); n != sources*total {
						t.Errorf("%d records arrived, want %d", n, sources*total)
					}
				})
			}
		}
	}
}

// A processor with wrong settings is not retried; one that cannot start is.
func TestProcessorsThatDoNotStart(t *testing.T) {
	for _, permanent := range []bool{true, false} {
		w := newWorld(t)
		s := w.source("src", 1)
		w.destination("dst", &fakeDestination{})
		w.scripted("dst", "x", func() sdk.Processor { return unwilling(permanent) })
		err := w.pipeline().Prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), "cannot start the processors of p:dst") {
			t.Errorf("Prepare returned %v", err)
		}
		var p interface{ Permanent() bool }
		if errors.As(err, &p) != permanent {
			t.Errorf("the error is permanent: %v, want %v: %v", !permanent, permanent, err)
		}
		_ = s
	}
}

type unwilling bool

func (unwilling) Parameters() sdk.Parameters { return nil }
func (u unwilling) Configure(context.Context, map[string]string) error {
	if u {
		return sdk.SettingError{Setting: "n", Message: "must be even"}
	}
	return nil
}
func (unwilling) Open(context.Context) error                       { return errors.New("no answer") }
func (unwilling) Process(context.Context, *sdk.ProcessBatch) error { return nil }
func (unwilling) Teardown(context.Context) error                   { return nil }

// Whatever processors do, in every place and with cuts at any time, every record arrives in all its pieces, is in the
// dead-letter queue, or was filtered, and the records of each source keep their order.
func TestProcessorsLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			const total = 400
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			w.source("src", total)
			d := w.destination("dst", &fakeDestination{async: rnd.IntN(2) == 0})
			if rnd.IntN(2) == 0 {
				w.destination("more", &fakeDestination{async: true})
			}
			if rnd.IntN(2) == 0 {
				d.refuse = func(r record.Record) error {
					if v := values([]record.Record{r})[0]; v%11 == 0 && (piece(r) == "" || piece(r) == "2") {
						return errors.New("no")
					}
					return nil
				}
			}
			for _, at := range []string{"src", "", "dst"} {
				if rnd.IntN(2) == 0 {
					w.processor(at, "sieve"+at, eachValue(func(b *sdk.ProcessBatch, i, v int) {
						if v%7 == 0 {
							b.Filter(i)
						}
					}))
				}
			}
			for _, at := range []string{"src", "", "dst"} {
				if rnd.IntN(2) == 0 {
					w.processor(at, "greedy"+at, greedy(t, "greedy"+at))
				}
			}
			if rnd.IntN(2) == 0 {
				w.processor([]string{"src", "", "dst"}[rnd.IntN(3)], "split", split(3))
			}
			if rnd.IntN(2) == 0 {
				at := []string{"src", "", "dst"}[rnd.IntN(3)]
				w.scripted(at, "delay", func() sdk.Processor { return &delay{n: 5} })
			}
			checkNothingLost(t, w, d, total, rnd)
		})
	}
}

// greedy makes a processor that takes much memory for each record, so that a batch passes in parts. No record may pass
// it twice.
func greedy(t *testing.T, id string) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			if b.Postpone(i) {
				break
			}
			r := b.Record(i)
			if r.Metadata.Get(id) != "" {
				t.Errorf("record %s passes %s again", r.Position, id)
			}
			r.Metadata.Set(id, "passed")
			if err := b.Take(i, 20<<20+values([]record.Record{*r})[0]%3<<20); err != nil {
				return err
			}
		}
		return nil
	}
}

// delay is a processor that holds records and releases them unchanged, n later.
type delay struct {
	sdk.ProcessorBase
	n       int
	held    []sdk.Held
	records []record.Record
}

func (*delay) Parameters() sdk.Parameters                         { return nil }
func (*delay) Configure(context.Context, map[string]string) error { return nil }
func (d *delay) Process(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		d.records = append(d.records, b.Record(i).Clone())
		d.held = append(d.held, b.Hold(i))
	}
	for len(d.held) > d.n {
		b.Emit(sdk.Emission{Records: d.records[:1:1], Settles: d.held[:1:1]})
		d.records, d.held = d.records[1:], d.held[1:]
	}
	return nil
}

// checkNothingLost runs the pipeline repeatedly, with cuts, until all records are read.
func checkNothingLost(t *testing.T, w *world, d *fakeDestination, total int, rnd *rand.Rand) {
	for cut := range 5 {
		runUntilCut(t, w, d, total, rnd, cut == 4)
	}
	got, most := map[int]map[string]bool{}, 0
	for _, r := range d.records() {
		v := values([]record.Record{r})[0]
		if got[v] == nil {
			got[v] = map[string]bool{}
		}
		got[v][piece(r)] = true
		most = max(most, len(got[v]))
	}
	dead := map[string]bool{}
	for _, l := range w.deadLetters() {
		n, _, _ := strings.Cut(l, " ")
		dead[n] = true
	}
	saved := w.store.saved("p:src")
	if saved < total-6 {
		t.Errorf("saved up to %d", saved)
	}
	filters := slices.ContainsFunc(slices.Concat(w.spec.Processors, w.spec.Connectors[0].Processors,
		w.spec.Connectors[1].Processors), func(p spec.Processor) bool {
		return strings.HasPrefix(p.ID, "sieve")
	})
	for v := 1; v <= saved; v++ {
		if len(got[v]) != most && !dead[fmt.Sprint(v)] && !(filters && v%7 == 0) {
			t.Errorf("record %d is lost: there are %d of %d pieces of it", v, len(got[v]), most)
		}
	}
}

// runUntilCut runs the pipeline from its saved position, for a random time or, the last time, to the end, and checks
// that records arrive in order.
func runUntilCut(t *testing.T, w *world, d *fakeDestination, total int, rnd *rand.Rand, last bool) {
	s := w.source("src", total)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drain := make(chan struct{})
	cut := time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cancel)
	if last {
		cut.Stop()
		ctx = t.Context()
		go func() {
			wait.For(t, "all", func() bool { return s.ackedUpTo() >= total-6 })
			close(drain)
		}()
	}
	p := w.pipeline()
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	from, before := len(d.records()), w.store.saved("p:src")
	if err := p.Run(ctx, drain, func() {}); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	previous := 0
	for _, v := range values(d.records()[from:]) {
		if v < previous || v <= before && before < total-6 {
			t.Fatalf("record %d comes after %d, in a run from %d on", v, previous, before)
		}
		previous = v
	}
}

// Observers of a processor or a destination see records before and after it, unaffected by later changes.
func TestObserversOfProcessors(t *testing.T) {
	w := newWorld(t)
	w.taps = &engine.TapPoints{}
	w.plugins.options.Tap = func(id string, out bool, records []record.Record) {
		point := engine.TapIn(id)
		if out {
			point = engine.TapOut(id)
		}
		w.taps.Publish(point, records)
	}
	s := w.source("src", 30)
	w.destination("dst", &fakeDestination{})
	w.processor("dst", "split", split(2))
	w.processor("dst", "x", eachValue(func(b *sdk.ProcessBatch, i, _ int) { b.Record(i).Metadata.Set("piece", "x") }))
	seen := map[string]*[]record.Record{}
	for _, point := range []string{"p:src", engine.TapIn("p:dst"), engine.TapIn("p:dst:split"),
		engine.TapOut("p:dst:split"), engine.TapIn("p:dst:x"), engine.TapOut("p:dst:x"), "p:dst"} {
		seen[point] = new([]record.Record)
		defer w.taps.Observe(point, keep(seen[point]))()
	}
	if err := w.run(func() bool { return s.ackedUpTo() == 30 }); err != nil {
		t.Fatal(err)
	}
	for point, want := range map[string]string{"p:src": "", "p:dst/in": "", "p:dst:split/in": "",
		"p:dst:split/out": "12", "p:dst:x/in": "12", "p:dst:x/out": "xx", "p:dst": "xx"} {
		got := ""
		for _, r := range *seen[point] {
			got += piece(r)
		}
		if n := len(*seen[point]); n != 30*max(1, len(want)) || got != strings.Repeat(want, 30) {
			t.Errorf("at %s %d records passed, pieces %q", point, n, got)
		}
	}
}
