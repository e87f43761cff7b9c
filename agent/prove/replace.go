package prove

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// maxPipelines is the maximum number of pipelines proved at once: each connector is a process.
const maxPipelines = 8

// Note describes a part of a pipeline that is proved in another form, and the reason.
type Note struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// outside are the names, or prefixes of names, of processors that call other systems.
var outside = []string{"webhook.", "openai.", "ollama", "cohere.", "enrich.http", "http"}

// replaced returns the pipelines with stand-ins for their systems, and notes about other differences.
func replaced(
	ctx context.Context, pipelines []spec.Pipeline, l ledgers, registry *processor.Registry, sabotage string,
) (made []spec.Pipeline, notes []Note) {
	notes = []Note{}
	for i := range pipelines {
		p := pipelines[i].Clone()
		if len(made) == maxPipelines {
			notes = append(notes, Note{"pipeline " + p.ID,
				fmt.Sprintf("left out: %d are proved at once; name the files to choose others", maxPipelines)})
			continue
		}
		if p.Status != spec.StatusRunning {
			notes = append(notes, Note{"pipeline " + p.ID, "runs, although it is declared to be stopped"})
		}
		p.Status = spec.StatusRunning
		p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings = "builtin:log", nil
		keep := func(where string, all []spec.Processor) (kept []spec.Processor) {
			for _, one := range all {
				if why := reasonAgainst(ctx, one, registry); why != "" {
					notes = append(notes, Note{"processor " + where + ":" + one.ID + " (" + one.Plugin + ")",
						"left out: " + why})
				} else {
					kept = append(kept, one)
				}
			}
			return kept
		}
		p.Processors = keep(p.ID, p.Processors)
		if p.Routed() {
			notes = append(notes, Note{"conditions of the destinations of " + p.ID,
				"left out: each destination gets every record, so that the records of each can be counted"})
		}
		p.Routing = ""
		for k := range p.Connectors {
			c := &p.Connectors[k]
			c.Condition, c.Default, c.Isolate = "", false, nil
			id := p.QualifiedID(c.ID)
			c.Plugin, c.Settings = "standalone:"+standIn, map[string]string{"ledger": l.path(id)}
			if c.Type == spec.TypeSource {
				c.Settings["id"] = id
			} else if sabotage != "" {
				c.Settings["sabotage"] = sabotage
			}
			c.Processors = keep(id, c.Processors)
		}
		made = append(made, *p)
	}
	return made, notes
}

// reasonAgainst tries a processor with records of a stand-in. It returns the reason why the processor cannot be proved
// with these records, "" if it can: then every record passes as one record and can be distinguished from others.
func reasonAgainst(ctx context.Context, one spec.Processor, registry *processor.Registry) string {
	name := pluginname.Bare(one.Plugin)
	for _, prefix := range outside {
		if strings.HasPrefix(name, prefix) {
			return "it asks another system"
		}
	}
	for _, value := range one.Settings {
		if strings.Contains(value, "${") {
			return "its settings contain references, which cannot be resolved here"
		}
	}
	p := &spec.Pipeline{ID: "trial", Processors: []spec.Processor{one}, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "none"}, {ID: "out", Type: spec.TypeDestination, Plugin: "none"}}}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	run, err := dryrun.Open(ctx, p, dryrun.Options{Registry: registry, Start: time.Now(), Timeout: 10 * time.Second})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = run.Close(ctx) }()
	const tries = 20
	for n := range int64(tries) {
		if err := run.Feed(ctx, "in", numbered("trial:in", n+1)); err != nil {
			return err.Error()
		}
	}
	if dead := run.DeadLetters(); len(dead) > 0 {
		return fmt.Sprintf("it refuses the records of a stand-in: %v", dead[0].Err)
	}
	out, _ := run.Delivered("out")
	return reasonIn(out, tries)
}

// reasonIn returns the difference in records that passed a processor.
func reasonIn(out []record.Record, want int) string {
	if len(out) != want {
		return fmt.Sprintf("it made %d records of %d, so that they cannot be counted", len(out), want)
	}
	for i, r := range out {
		number := r.Metadata.Get(keyNumber)
		if source := r.Metadata.Get(keySource); source == "" || number != fmt.Sprint(i+1) {
			return "it changes the metadata by which records are counted"
		}
	}
	return ""
}

// flowsOf returns the flows from each source to each destination in the same pipeline.
func flowsOf(pipelines []spec.Pipeline) (flows []Flow) {
	for _, p := range pipelines {
		for _, s := range p.Connectors {
			for _, d := range p.Connectors {
				if s.Type == spec.TypeSource && d.Type == spec.TypeDestination {
					flows = append(flows, Flow{Pipeline: p.ID, Source: s.ID, Destination: d.ID})
				}
			}
		}
	}
	return flows
}
