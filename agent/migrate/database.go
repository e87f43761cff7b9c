package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// Prefixes of the keys under which a Conduit keeps its state.
const (
	pipelineKey  = "pipeline:instance:"
	connectorKey = "connector:instance:"
	processorKey = "processor:instance:"
)

// instance is a pipeline, connector or processor as stored by a Conduit. Kinds are read as numbers and as text.
type instance struct {
	ID           string
	Plugin       string
	PipelineID   string
	Parent       struct{ ID string }
	Type         any
	Status       any
	Condition    string
	ConnectorIDs []string
	ProcessorIDs []string
	Config       struct {
		Name, Description string
		Settings          map[string]string
		Workers           int
	}
	LastActiveConfig struct{ Settings map[string]string }
	DLQ              *struct {
		Plugin              string
		Settings            map[string]string
		WindowSize          int
		WindowNackThreshold int
	}
	State struct {
		Position  []byte
		Positions map[string][]byte
	}
}

// FromDatabase returns the content of the SQLite file of a Conduit, which must not be running.
func FromDatabase(ctx context.Context, path string) (*Found, error) {
	entries, err := store.ReadConduit(ctx, path)
	if err != nil {
		return nil, err
	}
	f := &Found{Running: map[string]bool{}}
	d := database{Found: f, pipelines: map[string]*instance{}, connectors: map[string]*instance{},
		processors: map[string]*instance{}}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		d.read(key, entries[key])
	}
	for _, id := range slices.Sorted(maps.Keys(d.pipelines)) {
		d.pipeline(id, d.pipelines[id])
	}
	for _, id := range slices.Sorted(maps.Keys(d.connectors)) {
		if owner := d.connectors[id].PipelineID; d.pipelines[owner] == nil {
			d.note("connector %q belongs to pipeline %q, which is not stored", id, owner)
		}
	}
	f.finish(nil)
	return f, nil
}

type database struct {
	*Found
	pipelines, connectors, processors map[string]*instance
}

func (d *database) read(key string, value []byte) {
	for prefix, all := range map[string]map[string]*instance{pipelineKey: d.pipelines, connectorKey: d.connectors,
		processorKey: d.processors} {
		id, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		one := &instance{}
		if err := json.Unmarshal(value, one); err != nil {
			d.note("%s cannot be read: %v", key, err)
			return
		}
		all[id] = one
	}
}

func (d *database) pipeline(id string, from *instance) {
	p := spec.Pipeline{ID: id, Name: from.Config.Name, Description: from.Config.Description,
		Processors: d.chain(id, from.ProcessorIDs)}
	d.Running[id] = wasToRun(from.Status)
	for _, connector := range idsOf(from.ConnectorIDs, d.connectors, func(c *instance) bool {
		return c.PipelineID == id
	}) {
		one := d.connectors[connector]
		if one == nil {
			d.note("pipeline %q has a connector %q that is not stored", id, connector)
			continue
		}
		d.connector(&p, connector, one)
	}
	if q := from.DLQ; q != nil {
		p.DeadLetterQueue = spec.DeadLetterQueue{Plugin: q.Plugin, Settings: q.Settings, WindowSize: q.WindowSize,
			WindowNackThreshold: q.WindowNackThreshold}
	}
	d.Pipelines = append(d.Pipelines, p)
}

// wasToRun reports whether a pipeline with that status ran, or would run again with Conduit.
func wasToRun(status any) bool {
	switch strings.ToLower(fmt.Sprint(status)) {
	case "1", "2", "5", "running", "systemstopped", "recovering":
		return true
	}
	return false
}

// idsOf returns the ids that the owner lists, and the ids of others that name it as their owner.
func idsOf(listed []string, all map[string]*instance, owned func(*instance) bool) []string {
	ids := slices.Clone(listed)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if owned(all[id]) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (d *database) connector(p *spec.Pipeline, id string, from *instance) {
	one := spec.Connector{ID: strings.TrimPrefix(id, p.ID+":"), Plugin: from.Plugin, Name: from.Config.Name,
		Settings: from.Config.Settings, Processors: d.chain(id, from.ProcessorIDs)}
	switch kind := strings.ToLower(fmt.Sprint(from.Type)); {
	case len(from.State.Position) > 0, kind == "1", strings.Contains(kind, "source"):
		one.Type = spec.TypeSource
	case len(from.State.Positions) > 0, kind == "2", strings.Contains(kind, "destination"):
		one.Type = spec.TypeDestination
	default:
		d.note("connector %q is neither a source nor a destination: its type is %v", id, from.Type)
		return
	}
	p.Connectors = append(p.Connectors, one)
	if from.LastActiveConfig.Settings != nil {
		active := from.LastActiveConfig.Settings
		for name, value := range active {
			active[name] = spec.EscapeReferences(value)
		}
		d.Started = append(d.Started, spec.ConnectorState{ID: p.QualifiedID(one.ID), PipelineID: p.ID, Type: one.Type,
			Plugin: one.Plugin, Active: active})
	}
	if len(from.State.Position) > 0 {
		d.Checkpoints = append(d.Checkpoints, spec.Checkpoint{ConnectorID: p.QualifiedID(one.ID), PipelineID: p.ID,
			Plugin: pluginname.Bare(one.Plugin), Position: from.State.Position})
	}
}

// chain returns the processors with these ids, which belong to parent.
func (d *database) chain(parent string, ids []string) []spec.Processor {
	var all []spec.Processor
	for _, id := range idsOf(ids, d.processors, func(p *instance) bool { return p.Parent.ID == parent }) {
		one := d.processors[id]
		if one == nil {
			d.note("%q has a processor %q that is not stored", parent, id)
			continue
		}
		all = append(all, spec.Processor{ID: strings.TrimPrefix(id, parent+":"), Plugin: one.Plugin,
			Condition: one.Condition,
			Settings:  one.Config.Settings, Workers: one.Config.Workers})
	}
	return all
}
