package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Options configure a chain. Only the registry is required.
type Options struct {
	Registry *Registry
	Logger   *slog.Logger
	Schemas  schema.Registry
	// state directory of the pipeline; each processor keeps its durable state in a subdirectory
	StateDir string
	Clock    sdk.Clock     // nil: the system clock
	Timeout  time.Duration // maximum time of a processor for one record; 0: no limit
	Budget   int           // limit of the memory allocated for one record, in bytes; 0: sdk.DefaultBudget
	Former   *Chain        // the chain to replace; nil: none

	// Tap is called with the input records of a processor, before its condition, and with its output records. The
	// records must not be used after Tap returns.
	Tap func(processorID string, out bool, records []record.Record)
	// Stats returns the counters of a processor; nil: each processor has its own.
	Stats func(processorID, plugin string) *Stats
}

// Open starts the declared processors. The references in their settings must be resolved. parent qualifies their ids:
// it is the id of the pipeline or of the connector.
func Open(ctx context.Context, parent string, declared []spec.Processor, o Options) (*Chain, error) {
	c := &Chain{options: o, log: o.Logger}
	c.guard.init(o.Timeout)
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if cache, ok := o.Schemas.(*schema.Cache); ok {
		c.schemas = cache
	} else if o.Schemas != nil {
		c.schemas = &schema.Cache{Registry: o.Schemas}
	}
	for _, d := range declared {
		s, err := c.openStage(ctx, parent, d)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cannot start processor %q: %w", d.ID, err),
				c.Teardown(context.WithoutCancel(ctx)))
		}
		c.add(s)
	}
	return c, nil
}

// StateElement returns the name of a processor's directory within the pipeline's directory. parent is the parent passed
// to Open. No two processors of a pipeline share a name, although their qualified ids may be equal.
func StateElement(parent, id string) string { return texts.PathElement(parent, id) }

func (c *Chain) add(s *stage) {
	c.stages = append(c.stages, s)
	c.follow.Key = c.follow.Key || s.encodes.Key
	c.follow.Payload = c.follow.Payload || s.encodes.Payload
	if p, ok := s.workers[0].processor.(sdk.CommitObserver); ok {
		c.observers = append(c.observers, observer{p, s})
	}
}

// openStage starts one processor. On error it ends the workers that it started.
func (c *Chain) openStage(ctx context.Context, parent string, d spec.Processor) (*stage, error) {
	plugin, builtin, err := c.options.Registry.find(ctx, d)
	if err != nil {
		return nil, err
	}
	id := parent + ":" + d.ID
	s := &stage{id: id, plugin: d.Plugin, unproven: minSeeking, end: func() {}}
	if c.options.StateDir != "" {
		s.stateDir = filepath.Join(c.options.StateDir, StateElement(parent, d.ID))
	}
	if s.condition, err = template.ParseCondition(d.Condition); err != nil {
		return nil, declarationError{fmt.Errorf("condition: %w", err)}
	}
	if s.condition != nil {
		s.reads = s.condition.Parts()
	}
	options, own, err := splitSettings(plugin, d.Settings)
	if err != nil {
		return nil, err
	}
	for range max(1, d.Workers) {
		w, err := c.openWorker(ctx, s, plugin, maps.Clone(own))
		if err != nil {
			return nil, errors.Join(err, s.endWorkers(context.WithoutCancel(ctx)))
		}
		s.workers = append(s.workers, w)
	}
	s.use(options)
	if s.stats = (&Stats{}); c.options.Stats != nil {
		s.stats = c.options.Stats(id, d.Plugin)
	}
	s.stats.NeverFound.Store(nil) // of other settings
	if d.Plugin != spec.RoutingPlugin {
		s.end = c.options.Registry.begin(id, d.Plugin, plugin, builtin)
	}
	return s, nil
}

func (c *Chain) openWorker(
	ctx context.Context, s *stage, plugin sdk.ProcessorPlugin, settings map[string]string,
) (*worker, error) {
	w := &worker{env: &sdk.Env{
		ProcessorID: s.id,
		PluginName:  s.plugin,
		Logger:      c.log.With("processor_id", s.id, "plugin_name", s.plugin),
		Clock:       c.options.Clock,
		AllowPath:   c.options.Registry.AllowPath,
		StateDir:    s.stateDir,
		Budget:      c.options.Budget,
		TimeLimit:   c.options.Timeout,
		Progress:    c.guard.add(),
	}}
	if c.schemas != nil {
		w.env.Schemas = c.schemas
	}
	ctx = sdk.WithEnv(ctx, w.env)
	err := contain(func() error {
		w.processor = plugin.New()
		if err := w.processor.Configure(ctx, settings); err != nil {
			return fmt.Errorf("cannot configure it: %w", err)
		}
		if s.former = c.options.Former.predecessor(s.id, w.processor); s.former != nil {
			return nil
		}
		if err := w.processor.Open(ctx); err != nil {
			return fmt.Errorf("cannot open it: %w", err)
		}
		return nil
	})
	if err != nil {
		if w.processor != nil {
			err = errors.Join(err, contain(func() error { return w.processor.Teardown(ctx) }))
		}
		return nil, err
	}
	return w, nil
}

// contain turns a panic of f into an error.
func contain(f func() error) (err error) {
	defer sdk.Recover(&err)
	return f()
}

// maxWorkers bounds the instances of a processor.
const maxWorkers = 256

// awaitLimit is how long the start of a processor waits for files that may contain it.
const awaitLimit = 30 * time.Second

// find returns the plugin of a declared processor and whether it is built in, or an error if the processor cannot run
// as declared. It waits for files whose content is not known yet.
func (r *Registry) find(ctx context.Context, d spec.Processor) (p sdk.ProcessorPlugin, builtin bool, err error) {
	if d.Plugin == spec.RoutingPlugin {
		return routingPlugin, true, nil
	}
	p, builtin, err = r.Find(d.Plugin)
	if err != nil && r.Await != nil {
		limited, cancel := context.WithTimeout(ctx, awaitLimit)
		defer cancel()
		late := r.Await(limited)
		if p, builtin, err = r.Find(d.Plugin); err != nil && late != nil {
			err = fmt.Errorf("%w; files in processors.path are still being compiled: the pipeline is started again "+
				"when they are ready", err)
		}
	}
	if err != nil {
		return p, false, err
	}
	if err := checkWorkers(p, d.Workers); err != nil {
		return p, false, declarationError{err}
	}
	return p, builtin, nil
}

// declarationError describes a fault of a declaration other than its settings.
type declarationError struct{ error }

// Permanent reports that a retry does not help.
func (declarationError) Permanent() bool { return true }

// Unwrap returns the fault.
func (e declarationError) Unwrap() error { return e.error }

func checkWorkers(plugin sdk.ProcessorPlugin, workers int) error {
	if plugin.Stateful && workers > 1 {
		return fmt.Errorf("%s cannot have %d workers: its result for a record depends on the records before it; "+
			"leave workers at 1", plugin.Name, workers)
	}
	if workers > maxWorkers {
		return fmt.Errorf("%s cannot have %d workers: the most is %d", plugin.Name, workers, maxWorkers)
	}
	return nil
}
