package dryrun

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec"
)

// Result is the result of a test.
type Result struct {
	Name     string    `json:"name"`
	Line     int       `json:"line"`
	Passed   bool      `json:"passed"`
	Failures []Failure `json:"failures,omitempty"`
}

// deadLetters identifies the dead-letter queue in failures.
const deadLetters = "dead-letters"

// Failure is an expectation that was not met.
type Failure struct {
	Of      string   `json:"of"` // destination, or dead-letters; empty when the test could not run
	Message string   `json:"message"`
	Diff    []string `json:"diff,omitempty"` // lines that begin with - (expected) or + (actual)
}

// Runner runs the tests of files.
type Runner struct {
	Registry *processor.Registry
	Timeout  time.Duration // maximum time for a processor to process a record

	coverage map[string]*Coverage
	order    []string
}

// Run runs a test against the pipelines that its pipeline file declares.
func (r *Runner) Run(ctx context.Context, f *File, t *Test, pipelines []spec.Parsed) Result {
	result := Result{Name: t.Name, Line: t.Line}
	failures, err := r.run(ctx, f, t, pipelines)
	if err != nil {
		failures = append(failures, Failure{Message: err.Error()})
	}
	result.Failures, result.Passed = failures, len(failures) == 0
	return result
}

func (r *Runner) run(ctx context.Context, f *File, t *Test, pipelines []spec.Parsed) ([]Failure, error) {
	p, err := choose(t.Pipeline, pipelines)
	if err != nil {
		return nil, err
	}
	if p, err = resolve(p, f.Variables); err != nil {
		return nil, err
	}
	start := t.Start
	if start.IsZero() {
		start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	run, err := Open(ctx, p, Options{Registry: r.Registry, Start: start, Timeout: r.Timeout})
	if err != nil {
		return nil, err
	}
	err = feed(ctx, run, t, p)
	r.addCoverage(run.Coverage())
	if closed := run.Close(ctx); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	var failures []Failure
	for i := range t.Expect {
		failures = append(failures, t.Expect[i].compare(run, p)...)
	}
	if len(failures) > 0 {
		failures = append(failures, refusals(run.DeadLetters())...)
	}
	return failures, nil
}

// maxRefusals is the maximum number of refusals shown for a test.
const maxRefusals = 10

// refusals lists the refused records with their errors: without them a test that misses a record shows only that it is
// missing.
func refusals(letters []DeadLetter) (all []Failure) {
	for i, l := range letters {
		if i == maxRefusals {
			return append(all, Failure{Of: deadLetters,
				Message: fmt.Sprintf("%d more records were refused", len(letters)-i)})
		}
		all = append(all,
			Failure{Of: deadLetters,
				Message: fmt.Sprintf("record %q was refused by %s: %v", l.Record.Position, l.Processor, l.Err)})
	}
	return all
}

func choose(id string, pipelines []spec.Parsed) (*spec.Pipeline, error) {
	var ids []string
	for i := range pipelines {
		if ids = append(ids, pipelines[i].Pipeline.ID); pipelines[i].Pipeline.ID == id {
			return &pipelines[i].Pipeline, nil
		}
	}
	switch {
	case id != "":
		return nil, fmt.Errorf("the pipeline file declares no pipeline %q but %s", id, strings.Join(ids, ", "))
	case len(pipelines) == 1:
		return &pipelines[0].Pipeline, nil
	}
	return nil, fmt.Errorf("name the pipeline: the pipeline file declares %d", len(pipelines))
}

// resolve replaces references in the settings of processors by the variables of the test. References in connectors do
// not matter.
func resolve(p *spec.Pipeline, variables map[string]string) (*spec.Pipeline, error) {
	resolved, problems := spec.Resolve(Processors(p), Variables(func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s; tests take variables from the list variables of their file", problems[0].Message)
	}
	return resolved, nil
}

// Variables returns a lookup that knows only these variables.
func Variables(find func(name string) (value string, ok bool)) spec.Lookup {
	read := func(_ context.Context, name string, _ spec.ReferenceAccess) (string, error) {
		value, ok := find(name)
		if !ok {
			return "", spec.ErrUnset
		}
		return value, nil
	}
	return spec.Lookup{Kinds: spec.ReferenceKinds{{Name: spec.EnvReference, Early: true, Read: read}}, Early: true}
}

func feed(ctx context.Context, run *Run, t *Test, p *spec.Pipeline) error {
	for n, in := range t.Input {
		if err := run.Advance(ctx, in.After); err != nil {
			return err
		}
		rec, err := in.Record.record(n)
		if err != nil {
			return err
		}
		source, err := findConnector(in.Source, p, spec.TypeSource)
		if err != nil {
			return err
		}
		if err := run.Feed(ctx, source, rec); err != nil {
			return err
		}
	}
	return run.Advance(ctx, t.Advance)
}

// findConnector returns the id of the connector with this id, or of the only one with this type if id is empty.
func findConnector(id string, p *spec.Pipeline, typ spec.ConnectorType) (string, error) {
	var ids []string
	for _, c := range p.Connectors {
		if c.Type == typ {
			if ids = append(ids, c.ID); c.ID == id {
				return id, nil
			}
		}
	}
	switch {
	case id != "":
		return "", fmt.Errorf("pipeline %q has no %s %q but %s", p.ID, typ, id, strings.Join(ids, ", "))
	case len(ids) == 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("name the %s: pipeline %q has %d", typ, p.ID, len(ids))
}

// compare returns the differences from the expectation.
func (e *Expectation) compare(run *Run, p *spec.Pipeline) []Failure {
	place, got, err := e.got(run, p)
	if err != nil {
		return []Failure{{Message: err.Error()}}
	}
	var failures []Failure
	fail := func(diff []string, format string, args ...any) {
		failures = append(failures, Failure{place, fmt.Sprintf(format, args...), diff})
	}
	if e.Count != nil && *e.Count != len(got) {
		fail(nil, "%d records, want %d", len(got), *e.Count)
	}
	if e.Equal != nil {
		if diff := diffAll(records(*e.Equal), got); len(diff) > 0 {
			fail(diff, "other records than expected")
		}
	}
	if missing := firstMissing(e.Contains, got); missing >= 0 {
		fail(append(asLines("-", e.Contains[missing].fields()), gotLines(got)...),
			"no record contains expected record %d", missing+1)
	}
	if c, _ := template.ParseCondition(e.Each); c != nil {
		var timeLimit template.TimeLimit // no common limit: each condition is bounded
		for i := range got {
			if ok, err := c.Match(&timeLimit, &got[i]); err != nil {
				fail(gotLines(got[i:i+1]), "record %d: %v", i+1, err)
			} else if !ok {
				fail(gotLines(got[i:i+1]), "record %d does not meet %s", i+1, e.Each)
			}
		}
	}
	if e.Error != "" {
		for i, l := range run.DeadLetters() {
			if !strings.Contains(l.Err.Error(), e.Error) {
				fail([]string{"- " + e.Error, "+ " + l.Err.Error()}, "dead letter %d has another reason", i+1)
			}
		}
		if len(run.DeadLetters()) == 0 {
			fail([]string{"- " + e.Error}, "there is no dead letter")
		}
	}
	return failures
}

func (e *Expectation) got(run *Run, p *spec.Pipeline) (place string, got []record.Record, err error) {
	if e.DeadLetters {
		for _, l := range run.DeadLetters() {
			got = append(got, l.Record)
		}
		return deadLetters, got, nil
	}
	if place, err = findConnector(e.Destination, p, spec.TypeDestination); err != nil {
		return "", nil, err
	}
	got, _ = run.Delivered(place)
	return place, got, nil
}

func records(all []Record) []record.Record {
	out := make([]record.Record, len(all))
	for i, r := range all {
		out[i], _ = r.record(i) // checked when it was parsed
		if r.Position == "" {
			out[i].Position = nil // not compared
		}
	}
	return out
}

// addCoverage adds the coverage of processors in a test.
func (r *Runner) addCoverage(seen []Coverage) {
	if r.coverage == nil {
		r.coverage = map[string]*Coverage{}
	}
	for _, c := range seen {
		have := r.coverage[c.Processor]
		if have == nil {
			have = &Coverage{Processor: c.Processor, HasCondition: c.HasCondition}
			r.coverage[c.Processor] = have
			r.order = append(r.order, c.Processor)
		}
		have.Processed += c.Processed
		have.Skipped += c.Skipped
	}
}

// Coverage returns the coverage of the processors over all tests.
func (r *Runner) Coverage() []Coverage {
	all := make([]Coverage, len(r.order))
	for i, id := range r.order {
		all[i] = *r.coverage[id]
	}
	return all
}
