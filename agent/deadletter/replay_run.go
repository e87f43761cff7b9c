package deadletter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// sourceID is the id of the source of a replay. No connector in a pipeline file can have it.
const sourceID = "dead letters"

// run is a replay.
type run struct {
	replays  *Replays
	store    DeadLetters
	declared *spec.Declaration // the version of the pipeline in use
	from     spec.ReplayFrom
	resolved *spec.Pipeline
	next     Next
	source   *source
	secrets  func(error) error
	end      func(spec.Replay) // releases the reservation of Begin

	ctx       context.Context
	cancel    context.CancelCauseFunc
	drain     chan struct{}
	drainOnce sync.Once

	mu       sync.Mutex
	progress progress // guarded by mu
	why      error    // guarded by mu: reason for the early end, if it was not cancelled
}

func newRun(s *Replays, d *spec.Declaration, from spec.ReplayFrom) *run {
	r := &run{replays: s, store: s.DeadLetters, declared: d, from: from, drain: make(chan struct{}),
		progress: progress{PipelineID: d.Pipeline.ID, Running: true, Generation: d.Generation,
			Started: time.Now().UTC()}}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.source = newSource(r)
	return r
}

// load returns the next dead letters with their routes, or none at the end.
func (r *run) load(ctx context.Context) (all []inFlightReplay, err error) {
	for len(all) == 0 {
		loaded, skipped, err := r.next(ctx)
		if err != nil {
			return nil, err
		}
		r.count(func(p *progress) { p.Skipped += int64(skipped) })
		if len(loaded) == 0 && skipped == 0 {
			return nil, nil
		}
		for i := range loaded {
			to, err := enter(&r.declared.Pipeline, &loaded[i], r.from)
			if err != nil {
				return nil, err
			}
			all = append(all, inFlightReplay{Replay: loaded[i], route: to})
		}
	}
	return all, nil
}

// adapt turns p into a run of the replay: the source is the dead-letter store, every place for processors has a gate,
// and dead letters go back to the store. stop ends everything that adapt starts.
func (r *run) adapt(p *engine.Pipeline) (stop func()) {
	r.resolved = p.Resolved
	p.Plugins = plugins{p.Plugins, r}
	p.Store = store{p.Store}
	p.Declared, p.Resolved = gated(p.Declared), gated(p.Resolved)
	p.Committer = &engine.Committer{Store: p.Store, CommitInterval: p.Committer.CommitInterval,
		Barrier: p.Committer.Barrier}
	p.Stats, p.Taps = nil, nil
	p.Keep = r.again
	committing, end := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = p.Committer.Run(committing) }) // it saves nothing, so it cannot fail
	return func() { end(); ended.Wait() }
}

// gated returns p for a replay: the source of the replay replaces all sources, a placeholder for a gate replaces each
// chain of processors, and the dead-letter queue tolerates all failures.
func gated(p *spec.Pipeline) *spec.Pipeline {
	gate := []spec.Processor{{ID: "gate"}}
	p = p.Clone()
	p.Connectors = slices.DeleteFunc(p.Connectors, func(c spec.Connector) bool { return c.Type == spec.TypeSource })
	for i := range p.Connectors {
		p.Connectors[i].Processors = gate
	}
	p.Connectors = append(p.Connectors, spec.Connector{ID: sourceID, Type: spec.TypeSource, Processors: gate})
	p.Processors, p.DeadLetterQueue = gate, spec.DeadLetterQueue{}
	return p
}

// again takes a record that was refused again back into the store.
func (r *run) again(ctx context.Context, l *engine.DeadLetter) error {
	f, first := r.source.refuse(l.Record.Position)
	if f == nil { // processors changed its position; it must not be lost
		return r.store.Keep(ctx, r.declared, l)
	}
	l.SourceID = f.SourceID
	var err error
	if l.Original, err = f.Original(); err != nil {
		return err
	}
	if first {
		r.count(func(p *progress) { p.Refused++ })
	}
	return r.store.Again(ctx, r.declared, f.ID, l, first)
}

// plugins starts the connectors of a replay.
type plugins struct {
	engine.Plugins
	run *run
}

// Source returns the dead-letter store as a source.
func (s plugins) Source(context.Context, string, string) (connector.Source, error) {
	return s.run.source, nil
}

// Destination starts a destination of the pipeline.
func (s plugins) Destination(ctx context.Context, plugin, id string) (connector.Destination, error) {
	if id == s.run.declared.Pipeline.QualifiedID(spec.QueueID) {
		return &replayQueue{}, nil
	}
	d, err := s.Plugins.Destination(ctx, plugin, id)
	if replays, ok := d.(interface{ ForReplay() }); ok && err == nil {
		replays.ForReplay()
	}
	return d, err
}

// ByName implements engine.Plugins.
func (s plugins) ByName(plugin string) string {
	if plugin == "" {
		return ""
	}
	return s.Plugins.ByName(plugin)
}

// WithDefaults implements engine.Plugins.
func (s plugins) WithDefaults(plugin string, settings map[string]string) map[string]string {
	if plugin == "" {
		return settings
	}
	return s.Plugins.WithDefaults(plugin, settings)
}

// Processors returns the gate of a place.
func (s plugins) Processors(
	_ context.Context, parent string, _ []spec.Processor, _ connector.Chain,
) (connector.Chain, error) {
	p := s.run.resolved
	g := &gate{routes: s.run.source.routes, chains: map[part]connector.Chain{}, tokens: map[any]connector.Chain{},
		open: func(ctx context.Context, connector string, declared []spec.Processor) (connector.Chain, error) {
			id := p.ID
			if connector != "" {
				id = p.QualifiedID(connector)
			}
			return s.Plugins.Processors(ctx, id, declared, nil)
		}}
	g.number = func(destination string) int {
		return slices.IndexFunc(p.Routes(nil).Destinations, func(r spec.Route) bool { return r.ID == destination })
	}
	processors := func(id string) []spec.Processor {
		i := indexOfConnector(p, id)
		if i < 0 {
			return nil
		}
		return p.Connectors[i].Processors
	}
	switch parent {
	case p.ID:
		g.place, g.parent = atPipeline, func(route) (string, []spec.Processor) { return "", p.Chain(nil) }
	case p.QualifiedID(sourceID):
		g.place, g.parent = atSource, func(r route) (string, []spec.Processor) {
			if r.place != atSource {
				return "", nil
			}
			return r.connector, processors(r.connector)
		}
	default:
		i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return p.QualifiedID(c.ID) == parent })
		id := p.Connectors[i].ID
		g.place, g.parent = atDestination, func(route) (string, []spec.Processor) { return id, processors(id) }
	}
	return g, nil
}

// store is the store of a replay. It saves no positions, and nothing about its source.
type store struct{ engine.Store }

// Checkpoint implements engine.Store.
func (store) Checkpoint(context.Context, string) (*spec.Checkpoint, error) { return nil, nil }

// SaveCheckpoints implements engine.Store.
func (store) SaveCheckpoints(context.Context, []spec.Checkpoint) error { return nil }

// BeginRun implements engine.Store.
func (store) BeginRun(context.Context, string) (int64, error) { return 1, nil }

// SaveConnectorState implements engine.Store.
func (s store) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	if c.Type == spec.TypeSource {
		return nil
	}
	return s.Store.SaveConnectorState(ctx, c)
}
