package migrate

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// FromAPI returns the pipelines of a running Conduit. Its responses have no settings, so these come from files, the
// pipeline files of Conduit. Positions of running pipelines are not migrated, since they keep changing.
func FromAPI(ctx context.Context, c *client.Client, files []spec.Pipeline) (*Found, error) {
	f := &Found{Running: map[string]bool{}}
	pipelines, err := c.Pipelines(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the pipelines of %s: %w", c.URL, err)
	}
	processors, err := c.Processors(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the processors of %s: %w", c.URL, err)
	}
	for i := range pipelines {
		if err := f.fromAPI(ctx, c, &pipelines[i], processors); err != nil {
			return nil, err
		}
	}
	f.finish(files)
	return f, nil
}

func (f *Found) fromAPI(ctx context.Context, c *client.Client, from *rest.Pipeline, processors []rest.Processor) error {
	p := spec.Pipeline{ID: from.ID, Name: from.Config.Name, Description: from.Config.Description}
	stopped := from.State.Status == rest.StatusStopped || from.State.Status == rest.StatusDegraded
	f.Running[p.ID] = !stopped
	connectors, err := c.Connectors(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("cannot list the connectors of pipeline %q: %w", p.ID, err)
	}
	for i := range connectors {
		if owner := connectors[i].PipelineID; owner != "" && owner != p.ID {
			continue // for a server that does not filter
		}
		f.connector(&p, &connectors[i], processors, stopped)
	}
	p.Processors = processorsOf(processors, rest.ParentPipeline, p.ID)
	queue, _, err := c.DeadLetterQueue(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("cannot read the dead-letter queue of pipeline %q: %w", p.ID, err)
	}
	p.DeadLetterQueue = spec.DeadLetterQueue{
		Plugin:              queue.Plugin,
		Settings:            queue.Settings,
		WindowSize:          int(queue.WindowSize),
		WindowNackThreshold: int(queue.WindowNackThreshold),
	}
	f.Pipelines = append(f.Pipelines, p)
	return nil
}

func (f *Found) connector(p *spec.Pipeline, from *rest.Connector, processors []rest.Processor, stopped bool) {
	one := spec.Connector{ID: strings.TrimPrefix(from.ID, p.ID+":"), Plugin: from.Plugin, Name: from.Config.Name,
		Type: spec.TypeDestination, Settings: from.Config.Settings,
		Processors: processorsOf(processors, rest.ParentConnector, from.ID)}
	if from.Type == rest.TypeSource {
		one.Type = spec.TypeSource
	}
	p.Connectors = append(p.Connectors, one)
	id := p.QualifiedID(one.ID)
	if from.SourceState != nil || from.DestinationState != nil {
		f.Started = append(f.Started, spec.ConnectorState{ID: id, PipelineID: p.ID, Type: one.Type, Plugin: one.Plugin})
	}
	if from.SourceState == nil || len(from.SourceState.Position) == 0 {
		return
	}
	if !stopped {
		f.note("pipeline %q runs, so the position of %s is not taken over: stop it there first", p.ID, id)
		return
	}
	f.Checkpoints = append(f.Checkpoints, spec.Checkpoint{ConnectorID: id, PipelineID: p.ID,
		Plugin: pluginname.Bare(one.Plugin), Position: from.SourceState.Position})
}

// processorsOf returns the processors of a parent, in the order of the list.
func processorsOf(all []rest.Processor, kind rest.ParentType, parent string) []spec.Processor {
	var own []spec.Processor
	for _, one := range all {
		if one.Parent.Type == kind && one.Parent.ID == parent {
			own = append(own, spec.Processor{ID: strings.TrimPrefix(one.ID, parent+":"), Plugin: one.Plugin,
				Condition: one.Condition,
				Settings:  one.Config.Settings, Workers: one.Config.Workers})
		}
	}
	return own
}
