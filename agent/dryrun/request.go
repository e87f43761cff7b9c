package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// maxRecords bounds the records of a request.
const maxRecords = 1000

func invalidf(format string, args ...any) error {
	return &spec.Error{Kind: spec.ErrInvalid, Code: spec.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// Do does a dry run. The error is spec.ErrInvalid if the request is wrong. It resolves references in the settings of
// processors with lookup; connectors are not opened, and their references do not matter.
func Do(ctx context.Context, request spec.DryRunRequest, o Options, lookup spec.Lookup) (*spec.DryRun, error) {
	if n := len(request.Records); n > maxRecords {
		return nil, invalidf("there are %d records; the maximum is %d", n, maxRecords)
	}
	p, source, err := Choose(request)
	if err != nil {
		return nil, err
	}
	resolved, problems := spec.Resolve(Processors(p), lookup)
	if len(problems) > 0 {
		return nil, invalidf("%s", problems[0].Message)
	}
	var advance time.Duration
	if request.Advance != "" {
		if advance, err = time.ParseDuration(request.Advance); err != nil || advance < 0 {
			return nil, invalidf("advance %q is not a duration: want for example 1m", request.Advance)
		}
	}
	if o.Start = time.Now(); request.Start != nil {
		o.Start = *request.Start
	}
	r := &report{spec.DryRun{Records: []spec.DryRunRecord{}, Destinations: map[string][]json.RawMessage{},
		DeadLetters: []spec.DryRunDeadLetter{}}}
	o.Steps = r.step
	run, err := Open(ctx, resolved, o)
	if err != nil {
		return nil, invalidf("%v", err)
	}
	err = r.feed(ctx, run, source, &request, advance)
	if err := errors.Join(err, run.Close(ctx)); err != nil {
		return nil, err
	}
	r.finish(run, resolved)
	for i := range resolved.Connectors {
		if resolved.Connectors[i].Isolate != nil {
			r.Isolated = append(r.Isolated, resolved.Connectors[i].ID)
		}
	}
	return &r.DryRun, nil
}

// Processors returns a copy of p whose connectors have only their processors.
func Processors(p *spec.Pipeline) *spec.Pipeline {
	p = p.Clone()
	p.DeadLetterQueue.Settings = nil
	for i := range p.Connectors {
		p.Connectors[i].Settings, p.Connectors[i].Plugin = nil, "none"
	}
	return p
}

// Choose returns the pipeline and the id of the source of a request. The error is spec.ErrInvalid.
func Choose(request spec.DryRunRequest) (*spec.Pipeline, string, error) {
	file := spec.ParseFile("", []byte(request.File))
	for _, problem := range file.Problems {
		if problem.Severity == spec.SeverityError {
			return nil, "", invalidf("line %d, column %d: %s", problem.Line, problem.Column, problem.Message)
		}
	}
	for i := range file.Pipelines {
		if p := &file.Pipelines[i].Pipeline; p.ID == request.Pipeline || request.Pipeline == "" &&
			len(file.Pipelines) == 1 {
			source, err := chooseSource(p, request.Source)
			return p, source, err
		}
	}
	if request.Pipeline != "" {
		return nil, "", invalidf("the file declares no pipeline %q", request.Pipeline)
	}
	return nil, "", invalidf("the file declares %d pipelines: name one", len(file.Pipelines))
}

func chooseSource(p *spec.Pipeline, id string) (string, error) {
	var sources []string
	for _, c := range p.Connectors {
		if c.Type == spec.TypeSource {
			if sources = append(sources, c.ID); c.ID == id {
				return id, nil
			}
		}
	}
	switch {
	case id != "":
		return "", invalidf("pipeline %q has no source %q", p.ID, id)
	case len(sources) != 1:
		return "", invalidf("pipeline %q has %d sources: name the one that reads the records", p.ID, len(sources))
	}
	return sources[0], nil
}

// report is a dry run in progress.
type report struct{ spec.DryRun }

func (r *report) feed(ctx context.Context, run *Run, source string, request *spec.DryRunRequest,
	advance time.Duration) error {
	parse := record.ParseReadable
	if request.Base64 {
		parse = func(text []byte) (r record.Record, err error) { return r, json.Unmarshal(text, &r) }
	}
	for i, text := range request.Records {
		rec, err := parse(text)
		if err != nil {
			return invalidf("record %d: %v", i+1, err)
		}
		if rec.Operation == 0 {
			rec.Operation = record.OperationCreate
		}
		if len(rec.Position) == 0 {
			rec.Position = fmt.Append(nil, i+1)
		}
		r.Records = append(r.Records, spec.DryRunRecord{Number: i + 1, Steps: []spec.DryRunStep{}})
		if err := run.Feed(ctx, source, rec); err != nil {
			return err
		}
	}
	r.Records = append(r.Records, spec.DryRunRecord{Steps: []spec.DryRunStep{}})
	return run.Advance(ctx, advance)
}

func (r *report) step(s Step) {
	one := spec.DryRunStep{Processor: s.Processor, Diff: []string{}, Records: asJSON(s.Out)}
	for i := range max(len(s.In), len(s.Out)) {
		var before, after map[string]string
		if i < len(s.In) {
			before = Fields(&s.In[i])
		}
		if i < len(s.Out) {
			after = Fields(&s.Out[i])
		}
		one.Diff = append(one.Diff, Diff(before, after)...)
	}
	last := &r.Records[len(r.Records)-1]
	last.Steps = append(last.Steps, one)
}

func (r *report) finish(run *Run, p *spec.Pipeline) {
	if last := len(r.Records) - 1; len(r.Records[last].Steps) == 0 {
		r.Records = r.Records[:last]
	}
	for _, c := range p.Connectors {
		if got, ok := run.Delivered(c.ID); ok {
			r.Destinations[c.ID] = asJSON(got)
		}
	}
	for _, l := range run.DeadLetters() {
		r.DeadLetters = append(r.DeadLetters, spec.DryRunDeadLetter{Record: asJSON([]record.Record{l.Record})[0],
			Processor: l.Processor, Error: texts.TruncateError(l.Err.Error())})
	}
}

func asJSON(records []record.Record) []json.RawMessage {
	all := make([]json.RawMessage, len(records))
	for i := range records {
		b, err := record.AppendReadable(nil, &records[i])
		if err != nil { // JSON cannot represent it
			b, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		all[i] = b
	}
	return all
}
