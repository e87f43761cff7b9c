package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// lineSource is a source of numbers that returns lines or records.
type lineSource struct {
	fakeConnector
	*rand.Rand
	total   int
	why     string       // of NoLines
	acks    bool         // it waits for acknowledgements
	blocks  atomic.Int64 // batches of lines returned
	freed   atomic.Int64
	next    int
	paced   chan struct{} // a batch is returned for each element; nil: at once
	stopped chan struct{}
	stop    sync.Once
}

func (s *lineSource) NoLines() string   { return s.why }
func (s *lineSource) IgnoresAcks() bool { return !s.acks }

func (s *lineSource) Open(_ context.Context, pos record.Position) error {
	s.next, _ = strconv.Atoi(string(pos))
	return nil
}

func (s *lineSource) read(ctx context.Context) (*numbers, error) {
	select {
	case <-s.stopped:
		return nil, io.EOF
	default:
	}
	paced := s.paced
	if s.next >= s.total {
		paced = make(chan struct{}) // nothing follows
	}
	if paced != nil {
		select {
		case <-paced:
		case <-s.stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l := &numbers{first: s.next + 1, n: min(1+s.IntN(300), s.total-s.next), source: s}
	for range l.n {
		s.next++
		l.text = fmt.Appendf(l.text, "%d\n", s.next)
	}
	return l, nil
}

func (s *lineSource) Read(ctx context.Context) (*record.Batch, error) {
	l, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return record.NewBatch(l.Records()), nil
}

func (s *lineSource) ReadLines(ctx context.Context) (*record.Batch, error) {
	l, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.blocks.Add(1)
	return record.NewLines(l, record.Field{Key: "read", Value: "lines"}), nil
}

func (s *lineSource) Ack(context.Context, []record.Position) error {
	panic("it ignores acknowledgements")
}

func (s *lineSource) Stop(context.Context) error {
	s.stop.Do(func() { close(s.stopped) })
	return nil
}

// numbers are lines with consecutive numbers, which are the positions, too.
type numbers struct {
	text     []byte
	first, n int
	source   *lineSource
}

func (l *numbers) Text() []byte              { return l.text }
func (l *numbers) Len() int                  { return l.n }
func (l *numbers) Content() int              { return len(l.text) - l.n }
func (l *numbers) Metadata() record.Metadata { return nil }

func (l *numbers) Position(i int) record.Position { return record.Position(strconv.Itoa(l.first + i)) }

func (l *numbers) Records() []record.Record {
	records := make([]record.Record, 0, l.n)
	for text := range bytes.Lines(l.text) {
		records = append(records, record.Record{Position: l.Position(len(records)),
			Operation: record.OperationCreate, After: record.Raw(bytes.TrimSuffix(text, []byte("\n")))})
	}
	return records
}

// Free makes later uses of the text visible.
func (l *numbers) Free() {
	for i := range l.text {
		l.text[i] = 'x'
	}
	l.source.freed.Add(1)
}

// lineDestination writes lines as such. It settles batches in pieces, refuses some records, and sometimes breaks.
type lineDestination struct {
	*fakeDestination
	*rand.Rand
	why    atomic.Pointer[string] // of NoLines; nil: ""
	breaks int                    // once in so many writes; 0: never
	lines  atomic.Int64           // writes of lines
	text   []byte                 // everything written
}

func (d *lineDestination) NoLines() string {
	if why := d.why.Load(); why != nil {
		return *why
	}
	return ""
}

func refusable(n int) error {
	if n%997 == 0 {
		return errors.New("refused")
	}
	return nil
}

func (d *lineDestination) Write(_ context.Context, b *record.Batch) error {
	lines, ok := b.Lines()
	if ok && d.NoLines() == "" {
		d.lines.Add(1)
	} else {
		lines = nil
	}
	fails := -1
	if d.breaks > 0 && d.IntN(d.breaks) == 0 {
		fails = d.IntN(b.Len())
	}
	waiting, n := 0, b.Len()
	var split [][]byte
	if lines != nil {
		split = bytes.Split(lines.Text(), []byte("\n"))
	}
	for i := range n {
		if i == fails {
			return errors.New("disk on fire")
		}
		var line []byte
		if lines != nil {
			line = split[i]
		} else {
			records, _ := b.Records()
			line, _ = records[i].After.Raw()
		}
		number, err := strconv.Atoi(string(line))
		if err != nil {
			d.t.Errorf("got line %q", line)
		}
		if err := refusable(number); err != nil {
			if _, err := b.Records(); err != nil { // before the lines settle and are freed
				d.t.Error(err)
			}
			if waiting > 0 {
				d.settle(waiting, nil)
				waiting = 0
			}
			d.settle(1, err)
			continue
		}
		d.text = append(append(d.text, line...), '\n')
		if waiting++; d.IntN(50) == 0 || i == n-1 {
			d.settle(waiting, nil)
			waiting = 0
		}
	}
	if waiting > 0 {
		d.settle(waiting, nil)
	}
	return nil
}

// moveLines runs a pipeline from one source to destinations until all lines are committed, and returns its stats and
// the number of failures.
func moveLines(t *testing.T, r *rand.Rand, total int, lane bool, paced chan struct{}, dests []*lineDestination,
	during func(*engine.TapPoints, *lineSource)) (*lineSource, *measure.Pipeline, int) {
	w := newWorld(t)
	w.taps, w.stats = &engine.TapPoints{}, &measure.Pipeline{}
	w.spec.DeadLetterQueue.WindowSize = 0 // any number of refusals
	w.spec.Connectors = []spec.Connector{{ID: "src", Type: spec.TypeSource, Plugin: "src"}}
	for i, d := range dests {
		w.destination(fmt.Sprint("dst", i), d.fakeDestination)
		w.plugins.destinations[fmt.Sprint("p:dst", i)] = d
	}
	var s *lineSource
	for failures := 0; ; failures++ {
		before := s
		s = &lineSource{Rand: r, total: total, paced: paced, stopped: make(chan struct{})}
		if before != nil {
			s.blocks.Store(before.blocks.Load())
		}
		if !lane {
			s.why = "off"
		}
		w.plugins.sources["p:src"] = s
		err := w.run(func() bool {
			during(w.taps, s)
			return w.store.saved("p:src") == total
		})
		if err == nil {
			return s, w.stats, failures
		}
		if failures > 1000 {
			t.Fatal(err)
		}
	}
}

func newLineDestinations(t *testing.T, r *rand.Rand, n, breaks int) (all []*lineDestination) {
	for range n {
		all = append(all, &lineDestination{fakeDestination: &fakeDestination{t: t}, Rand: rand.New(
			rand.NewPCG(r.Uint64(), 1)), breaks: breaks})
	}
	return all
}

func nothing(*engine.TapPoints, *lineSource) {}

// Lines and records have the same output, positions, dead letters and counts.
func TestLinesEqualRecords(t *testing.T) {
	const total = 10_000
	want := make([]byte, 0, total*6)
	for n := range total {
		if refusable(n+1) == nil {
			want = fmt.Appendf(want, "%d\n", n+1)
		}
	}
	for seed := range uint64(4) {
		counts := map[bool]string{}
		for _, lane := range []bool{true, false} {
			r := rand.New(rand.NewPCG(seed, 1))
			dests := newLineDestinations(t, r, 1+int(seed)%2, 0)
			s, stats, _ := moveLines(t, r, total, lane, nil, dests, nothing)
			if lane != (s.blocks.Load() > 0) || lane != (dests[0].lines.Load() > 0) {
				t.Errorf("lane %v: read %d blocks, wrote %d", lane, s.blocks.Load(), dests[0].lines.Load())
			}
			if lane && s.freed.Load() == 0 {
				t.Error("no lines were freed")
			}
			for _, d := range dests {
				if !bytes.Equal(d.text, want) {
					t.Errorf("seed %d, lane %v: other output", seed, lane)
				}
			}
			counts[lane] = countsOf(stats)
		}
		if counts[true] != counts[false] {
			t.Errorf("counts of lines %s, of records %s", counts[true], counts[false])
		}
	}
}

func countsOf(p *measure.Pipeline) string {
	var counts []string
	p.Each(func(typ spec.ConnectorType, id string, c *measure.Connector) {
		counts = append(counts, fmt.Sprintf("%v %s: %d records, %d bytes, %d acked, %d nacked", typ, id,
			c.Records.Load(), c.Bytes.Load(), c.Acked.Load(), c.Nacked.Load()))
	})
	slices.Sort(counts)
	return strings.Join(counts, "\n")
}

// When a destination breaks in the middle of lines, the next run resumes after the last settled line.
func TestLinesAfterFaults(t *testing.T) {
	const total = 10_000
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		dests := newLineDestinations(t, r, 1+int(seed)%2, 30)
		_, _, failures := moveLines(t, r, total, true, nil, dests, nothing)
		if failures == 0 {
			t.Error("nothing failed")
		}
		for _, d := range dests {
			wantAll(t, d.text, total, failures)
		}
	}
}

// wantAll checks that text has every number in order, except that it goes back at most so many times.
func wantAll(t *testing.T, text []byte, total, back int) {
	t.Helper()
	last, went := 0, 0
	for line := range bytes.Lines(text) {
		n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			t.Fatalf("got line %q", line)
		}
		for next := last + 1; next < n; next++ {
			if refusable(next) == nil {
				t.Fatalf("%d follows %d", n, last)
			}
		}
		if n <= last {
			went++
		}
		last = n
	}
	if last < total-1 || went > back {
		t.Errorf("ends with %d of %d, went back %d times after %d failures", last, total, went, back)
	}
}

// An inspector, a destination that stops taking lines, and the installation of processors end the lane in the middle,
// and every record passes once and in order. The inspector gets whole records.
func TestLaneEndsInTheMiddle(t *testing.T) {
	const total = 60_000
	r := rand.New(rand.NewPCG(1, 3))
	dests := newLineDestinations(t, r, 2, 0)
	var stop func()
	var seen atomic.Int64
	off := "off"
	step, before := 0, int64(0)
	paced := make(chan struct{}, 20)
	s, _, _ := moveLines(t, r, total, true, paced, dests, func(taps *engine.TapPoints, _ *lineSource) {
		for len(paced) < cap(paced) {
			paced <- struct{}{}
		}
		if step%8 == 2 && seen.Load() == before {
			return // a batch is still to pass the inspector
		}
		step++
		switch step % 8 {
		case 1:
			before = seen.Load()
			id := []string{"p:src", "p:dst0", "p:dst1", "p:dst1/in"}[step/8%4]
			stop = taps.Observe(id, func(b *record.Batch) {
				for _, rec := range must(b.Records()) {
					if after, _ := rec.After.Raw(); !bytes.Equal(after, rec.Position) {
						t.Errorf("observed %q at %q", after, rec.Position)
					}
					seen.Add(1)
				}
			})
		case 3:
			stop()
			dests[step/8%2].why.Store(&off)
		case 5:
			dests[step/8%2].why.Store(nil)
		}
	})
	for _, d := range dests {
		wantAll(t, d.text, total, 0)
	}
	if s.blocks.Load() == 0 || seen.Load() == 0 {
		t.Errorf("%d blocks, %d records observed", s.blocks.Load(), seen.Load())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Processors get records, and records that they filter are settled.
func TestNoLaneWithProcessors(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 4))
	w.plugins.processors["even"] = func() sdk.Processor {
		return &script{process: func(_ context.Context, b *sdk.ProcessBatch) error {
			for i := range b.Len() {
				if n, _ := strconv.Atoi(string(b.Record(i).Position)); n%2 > 0 {
					b.Filter(i)
				}
			}
			return nil
		}}
	}
	d := newLineDestinations(t, r, 1, 0)[0]
	s := &lineSource{Rand: r, total: 900, stopped: make(chan struct{})}
	w.plugins.sources["p:src"] = s
	w.spec.Connectors = []spec.Connector{{ID: "src", Type: spec.TypeSource, Plugin: "src"}}
	w.destination("dst", d.fakeDestination)
	w.plugins.destinations["p:dst"] = d
	w.spec.Processors = []spec.Processor{{ID: "even", Plugin: "even"}}
	if err := w.run(func() bool { return w.store.saved("p:src") == s.total }); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(d.text, []byte("\n")); n != s.total/2 || s.blocks.Load() > 0 {
		t.Errorf("wrote %d lines, read %d blocks", n, s.blocks.Load())
	}
}

// A stage says why no lines pass: each thing that looks at records, in the source, between and in the destination.
func TestLaneSaysWhyItIsOff(t *testing.T) {
	observe := func(id string) func(*world, *lineSource, *lineDestination) {
		return func(w *world, _ *lineSource, _ *lineDestination) {
			t.Cleanup(w.taps.Observe(id, func(*record.Batch) {}))
		}
	}
	process := func(at string) func(*world, *lineSource, *lineDestination) {
		return func(w *world, _ *lineSource, _ *lineDestination) {
			w.processor(at, "look", func(context.Context, *sdk.ProcessBatch) error { return nil })
		}
	}
	const processors = "off: processors or conditions look at the records"
	for _, c := range []struct {
		name string
		set  func(*world, *lineSource, *lineDestination)
		want string
	}{
		{"nothing", func(*world, *lineSource, *lineDestination) {}, "on"},
		{"source without lines", func(_ *world, s *lineSource, _ *lineDestination) { s.why = sdk.WithoutLines },
			""},
		{"setting of the source", func(_ *world, s *lineSource, _ *lineDestination) { s.why = "it groups" },
			"off: source p:src: it groups"},
		{"acknowledgements", func(_ *world, s *lineSource, _ *lineDestination) { s.acks = true },
			"off: source p:src waits for acknowledgements of records"},
		{"processor of the source", process("src"), processors},
		{"processor of the pipeline", process(""), processors},
		{"processor of the destination", process("dst"), "off: processors look at the records for p:dst"},
		{"condition", func(w *world, _ *lineSource, _ *lineDestination) {
			w.spec.Connectors[1].Condition = divides(2)
		}, processors},
		{"inspector of the source", observe("p:src"), "off: an inspector looks at the records of p:src"},
		{"inspector of the destination", observe("p:dst"), "off: an inspector looks at the records for p:dst"},
		{"inspector before the destination", observe(engine.TapIn("p:dst")),
			"off: an inspector looks at the records for p:dst"},
		{"setting of the destination", func(_ *world, _ *lineSource, d *lineDestination) {
			why := "it has a format"
			d.why.Store(&why)
		}, "off: destination p:dst: it has a format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.taps, w.stats = &engine.TapPoints{}, &measure.Pipeline{}
			r := rand.New(rand.NewPCG(1, 5))
			s, d := &lineSource{Rand: r, stopped: make(chan struct{})}, newLineDestinations(t, r, 1, 0)[0]
			w.plugins.sources["p:src"] = s
			w.spec.Connectors = []spec.Connector{{ID: "src", Type: spec.TypeSource, Plugin: "src"}}
			w.destination("dst", d.fakeDestination)
			w.plugins.destinations["p:dst"] = d
			c.set(w, s, d)
			l := w.begin(t.Context())
			if got := l.Stages(nil)[0].RawLane; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err := l.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
