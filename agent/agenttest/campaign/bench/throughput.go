package main

import (
	"context"
	"fmt"
	"time"
)

var throughput = suite{
	name:  "throughput",
	title: "How much passes",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"},
		{name: "CPU µs/record", format: "%.2f"}, {name: "peak MiB", format: "%.0f"}},
	cases: []testCase{
		passing("generator → file", fromGenerator("builtin", fast)),
		passing("generator → file, fsync: false",
			[]string{pipeline(0, source("builtin:generator", fast),
				destination("builtin:file", "path: "+outputOf(0)+", fsync: false"))}),
		passing("generator → file, schemas", fromGenerator("builtin",
			"rate: 0, format.type: structured, format.options.id: int, format.options.name: string")),
		{name: "file → file, 140-byte lines", measure: fileToFile},
		{name: "generator → log", measure: toLog},
		{name: "generator → spool", measure: toSpool},
		{name: "spool → file", measure: fromSpool},
		passing("generator → file, 10 pipelines", many(10, fast)),
		passing("generator → file, executables", fromGenerator("standalone", fast)),
		passing("generator → file, executables, schemas", fromGenerator("standalone",
			"rate: 0, format.type: structured, format.options.id: int, format.options.name: string")),
		passing("generator → file, executables, one record a message",
			fromGenerator("standalone", fast+", sdk.batch.size: 1")),
	},
}

// flow is the result of measuring pipelines for some time.
type flow struct {
	records float64 // total, from the agent's start to its end
	share   float64 // the measured part of the records, to which the other fields refer
	took    time.Duration
	used    usage
	peak    float64 // MiB
}

func (f flow) perSecond() float64 { return f.records * f.share / f.took.Seconds() }

// perRecord returns d for each record, in microseconds.
func (f flow) perRecord(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond) / (f.records * f.share)
}

// values are the columns of most tables.
func (f flow) values() []float64 {
	return []float64{f.records, f.perSecond(), f.perRecord(f.used.agent + f.used.connectors), f.peak}
}

// passing is a case that runs pipelines for the given time.
func passing(name string, pipelines []string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		f, err := b.pass(ctx, pipelines, nil)
		return f.values(), err
	}}
}

// warmUp is the running time of pipelines before the measurement.
const warmUp = 500 * time.Millisecond

// observer puts a load on the agent while pipelines run. It is called once they run, and the returned function is
// called after the measurement.
type observer func(ctx context.Context, b *bench, a *agent) (end func() error, err error)

// pass runs endless pipelines, and measures them for the given time, with an observer unless by is nil.
func (b *bench) pass(ctx context.Context, pipelines []string, by observer) (flow, error) {
	a, err := b.start(ctx, pipelines...)
	if err != nil {
		return flow{}, err
	}
	out := b.outputs(len(pipelines))
	f, err := b.observe(ctx, a, out, by)
	if err = a.stop(err); err != nil {
		return flow{}, err
	}
	err = f.count(out)
	return f, err
}

// count counts the records and converts share from bytes to a fraction.
func (f *flow) count(out output) error {
	n, err := out.lines()
	f.records, f.share = float64(n), f.share/float64(out.size())
	if err == nil && n == 0 {
		err = fmt.Errorf("nothing arrived in %s", out[0])
	}
	return err
}

func (b *bench) observe(ctx context.Context, a *agent, out output, by observer) (f flow, err error) {
	if err := await(ctx, "records", out.started); err != nil {
		return f, err
	}
	end := func() error { return nil }
	if by != nil {
		if end, err = by(ctx, b, a); err != nil {
			return f, err
		}
	}
	sleep(ctx, warmUp)
	begin, size := time.Now(), out.size()
	used, err := a.usage()
	if err != nil {
		return f, err
	}
	sleep(ctx, b.seconds)
	f.took, f.share = time.Since(begin), float64(out.size()-size)
	after, err := a.usage()
	if err != nil {
		return f, err
	}
	f.used = after.minus(used)
	if f.peak, err = a.peak(); err != nil {
		return f, err
	}
	return f, end()
}

func fromGenerator(kind, settings string) []string {
	return []string{pipeline(0, source(kind+":generator", settings), toFile(kind, 0))}
}

// many returns n pipelines at full speed.
func many(n int, settings string) []string {
	var pipelines []string
	for i := range n {
		pipelines = append(pipelines, pipeline(i, source("builtin:generator", settings), toFile("builtin", i)))
	}
	return pipelines
}

// inputLines is the number of input lines.
const inputLines = 3_000_000

// fileToFile measures until all lines have arrived.
func fileToFile(ctx context.Context, b *bench) ([]float64, error) {
	if err := writeLines(b.path("input.log"), inputLines); err != nil {
		return nil, err
	}
	a, err := b.start(ctx, pipeline(0, source("builtin:file", "path: input.log"), toFile("builtin", 0)))
	if err != nil {
		return nil, err
	}
	return b.allArrive(ctx, a)
}

// allArrive measures until all lines are in the first output, and stops the agent.
func (b *bench) allArrive(ctx context.Context, a *agent) ([]float64, error) {
	out := output{b.path(outputOf(0))}
	f, err := a.untilQuiet(ctx, out)
	if err = a.stop(err); err != nil {
		return nil, err
	}
	if err := f.count(out); err != nil {
		return nil, err
	}
	if f.records != inputLines {
		return nil, fmt.Errorf("%.0f of %d records arrived", f.records, inputLines)
	}
	return f.values(), nil
}

// untilQuiet measures until no more records arrive.
func (a *agent) untilQuiet(ctx context.Context, out output) (f flow, err error) {
	if err := await(ctx, "records", out.started); err != nil {
		return f, err
	}
	begin, size := time.Now(), out.size()
	used, err := a.usage()
	if err != nil {
		return f, err
	}
	changed, last := begin, size
	err = await(ctx, "the end", func() bool {
		if s := out.size(); s != last {
			changed, last = time.Now(), s
		}
		return time.Since(changed) > time.Second
	})
	if err != nil {
		return f, err
	}
	f.took, f.share = changed.Sub(begin), float64(last-size)
	after, err := a.usage()
	if err != nil {
		return f, err
	}
	f.used = after.minus(used)
	f.peak, err = a.peak()
	return f, err
}

// toLog counts the lines of the agent's output.
func toLog(ctx context.Context, b *bench) ([]float64, error) {
	a, err := b.start(ctx, pipeline(0, source("builtin:generator", fast), destination("builtin:log", "")))
	if err != nil {
		return nil, err
	}
	out := output{a.log}
	f, err := b.observe(ctx, a, out, nil)
	if err = a.stop(err); err != nil {
		return nil, err
	}
	err = f.count(out)
	return f.values(), err
}
