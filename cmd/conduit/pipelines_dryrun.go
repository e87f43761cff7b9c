package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func dryRunCommand(p *program) *ffcli.Command {
	flags := newFlags("dry-run")
	var a dryRun
	flags.StringVar(&a.input, "input", "-", "file with one record a line, as JSON; - is standard input")
	flags.StringVar(&a.pipeline, "pipeline", "", "id of the pipeline, when the file declares several")
	flags.StringVar(&a.source, "source", "", "id of the source that reads the records, when there are several")
	flags.DurationVar(&a.advance, "advance", 0, "time that passes after the last record, for windows to end")
	flags.StringVar(&a.start, "start", "", "time at the beginning, as in RFC 3339; it is now when left out")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	return &ffcli.Command{
		Name:       "dry-run",
		ShortUsage: "conduit pipelines dry-run FILE --input RECORDS [flags]",
		ShortHelp:  "Show what the processors of a pipeline make of records.",
		LongHelp: `Runs records through the processors of a pipeline file and shows, for each processor, which fields
it changed. No connector is opened, and time is virtual. Records have the form that the file
destination writes: {"position":…,"operation":…,"metadata":…,"key":…,"payload":{"before":…,"after":…}},
where raw data is base64 and all but the payload may be left out.

Example:
  conduit pipelines dry-run pipelines/orders.yaml --input orders.jsonl`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			paths, err := positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return invalidf("name a pipeline file")
			}
			return p.dryRun(ctx, paths[0], &a)
		},
	}
}

// dryRun is what is asked for.
type dryRun struct {
	input, pipeline, source, start string

	advance time.Duration
	json    bool
}

// dryRunReport is the result of a dry run.
type dryRunReport struct {
	Records      []recordReport             `json:"records"`
	Destinations map[string][]record.Record `json:"destinations"`
	DeadLetters  []letterReport             `json:"deadLetters"`
}

// recordReport is what happened after one record was read; number 0 is for what happened by
// time after the last one.
type recordReport struct {
	Number int          `json:"number"`
	Steps  []stepReport `json:"steps"`
}

type stepReport struct {
	Processor string          `json:"processor"`
	Diff      []string        `json:"diff"`
	Records   []record.Record `json:"records"`
}

type letterReport struct {
	Record    record.Record `json:"record"`
	Processor string        `json:"processor"`
	Error     string        `json:"error"`
}

func (p *program) dryRun(ctx context.Context, path string, a *dryRun) error {
	pipelines, err := loadPipelines(path)
	if err != nil {
		return err
	}
	pipeline, err := a.choose(path, pipelines)
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if a.input != "-" {
		f, err := os.Open(a.input)
		if err != nil {
			return fmt.Errorf("cannot read records: %w", err)
		}
		defer f.Close()
		in = f
	}
	r := &dryRunReport{Records: []recordReport{}, Destinations: map[string][]record.Record{}, DeadLetters: []letterReport{}}
	if err := r.run(ctx, pipeline, a, in); err != nil {
		return err
	}
	if a.json {
		return p.writeJSON(r)
	}
	r.print(p)
	return nil
}

func (a *dryRun) choose(path string, pipelines []spec.Parsed) (*spec.Pipeline, error) {
	for i := range pipelines {
		if id := pipelines[i].Pipeline.ID; id == a.pipeline || a.pipeline == "" && len(pipelines) == 1 {
			chosen := pipelines[i].Pipeline.Clone()
			return chosen, a.chooseSource(chosen)
		}
	}
	if a.pipeline != "" {
		return nil, invalidf("%s declares no pipeline %q", path, a.pipeline)
	}
	return nil, invalidf("%s declares %s: name one with --pipeline", path, count(len(pipelines), "pipeline"))
}

func (a *dryRun) chooseSource(p *spec.Pipeline) error {
	sources := 0
	for _, c := range p.Connectors {
		if c.Type != spec.TypeSource {
			continue
		}
		if sources++; a.source == "" {
			a.source = c.ID
		} else if a.source == c.ID {
			return nil
		}
	}
	if sources != 1 {
		return invalidf("pipeline %q has %s: name one with --source", p.ID, count(sources, "source"))
	}
	return nil
}

func (r *dryRunReport) run(ctx context.Context, p *spec.Pipeline, a *dryRun, in io.Reader) (err error) {
	resolved, problems := spec.Resolve(withoutConnectors(p), spec.Lookup{Env: os.LookupEnv})
	if len(problems) > 0 {
		return invalidf("%s", problems[0].Message)
	}
	start := time.Now()
	if a.start != "" {
		if start, err = time.Parse(time.RFC3339, a.start); err != nil {
			return invalidf("--start %q is no time: want for example 2024-01-31T12:00:00Z", a.start)
		}
	}
	run, err := dryrun.Open(ctx, resolved, dryrun.Options{Registry: offlineProcessors(), Start: start, Timeout: offlineTimeout, Steps: r.step})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close(ctx)) }()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		rec := record.Record{Operation: record.OperationCreate, Position: fmt.Append(nil, n)}
		if err := readRecord(lines.Bytes(), &rec); err != nil {
			return invalidf("%s: line %d: %v", a.input, n, err)
		}
		r.Records = append(r.Records, recordReport{Number: n, Steps: []stepReport{}})
		if err := run.Feed(ctx, a.source, rec); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read records: %w", err)
	}
	r.Records = append(r.Records, recordReport{Steps: []stepReport{}})
	if err := run.Advance(ctx, a.advance); err != nil {
		return err
	}
	r.finish(run, resolved)
	return nil
}

// readRecord reads a record whose operation and position may be left out.
func readRecord(line []byte, r *record.Record) error {
	operation, position := r.Operation, r.Position
	if err := json.Unmarshal(line, r); err != nil {
		return err
	}
	if r.Operation == 0 {
		r.Operation = operation
	}
	if len(r.Position) == 0 {
		r.Position = position
	}
	return nil
}

// withoutConnectors returns p without the settings of connectors, which are not opened.
func withoutConnectors(p *spec.Pipeline) *spec.Pipeline {
	p = p.Clone()
	p.DLQ.Settings = nil
	for i := range p.Connectors {
		p.Connectors[i].Settings = nil
	}
	return p
}

func (r *dryRunReport) step(s dryrun.Step) {
	one := stepReport{Processor: s.Processor, Diff: []string{}, Records: s.Out}
	for i := range max(len(s.In), len(s.Out)) {
		var before, after map[string]string
		if i < len(s.In) {
			before = dryrun.Fields(&s.In[i])
		}
		if i < len(s.Out) {
			after = dryrun.Fields(&s.Out[i])
		}
		one.Diff = append(one.Diff, dryrun.Diff(before, after)...)
	}
	last := &r.Records[len(r.Records)-1]
	last.Steps = append(last.Steps, one)
}

func (r *dryRunReport) finish(run *dryrun.Run, p *spec.Pipeline) {
	if last := len(r.Records) - 1; len(r.Records[last].Steps) == 0 {
		r.Records = r.Records[:last]
	}
	for _, c := range p.Connectors {
		if got, ok := run.Delivered(c.ID); ok {
			r.Destinations[c.ID] = append([]record.Record{}, got...)
		}
	}
	for _, l := range run.Letters() {
		r.DeadLetters = append(r.DeadLetters, letterReport{l.Record, l.Processor, l.Err.Error()})
	}
}

// print writes the report for people.
func (r *dryRunReport) print(p *program) {
	for _, one := range r.Records {
		if one.Number > 0 {
			fmt.Fprintf(p.stdout, "record %d\n", one.Number)
		} else {
			fmt.Fprintln(p.stdout, "after the last record")
		}
		for _, s := range one.Steps {
			fmt.Fprintf(p.stdout, "  %s%s\n", s.Processor, stepWords(&s))
			if len(s.Records) > 0 {
				p.printDiff(s.Diff)
			}
		}
	}
	for _, l := range r.DeadLetters {
		fmt.Fprintf(p.stdout, "dead letter: %s: %s\n", l.Processor, l.Error)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Destinations)) {
		fmt.Fprintf(p.stdout, "%s gets %s\n", id, count(len(r.Destinations[id]), "record"))
	}
}

func stepWords(s *stepReport) string {
	switch {
	case len(s.Records) == 0:
		return ": nothing goes on"
	case len(s.Diff) == 0:
		return ": unchanged"
	case len(s.Records) > 1:
		return fmt.Sprintf(": %d records", len(s.Records))
	}
	return ""
}
