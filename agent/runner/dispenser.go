package runner

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// dispenser is the plugin host for one run: it counts connectors, and redacts their logs.
type dispenser struct {
	host    *plugins.Host
	secrets *redact.Redactor
	started func(plugin, id string) // called for each connector
	chains  processor.Options       // options to run processors with
	// guard wraps destinations that are executables, to find records that end their process; nil: it wraps none.
	guard func(plugin, id string, d connector.Destination) connector.Destination
	// instance is the number of the instance of the pipeline that runs; 0 or 1: the first.
	instance int
	// deadLetters bounds the output of a dead-letter queue that is the log; nil: no bound.
	deadLetters *deadLetterLog
	stats       *measure.Pipeline // of the pipeline; nil for connectors outside a run
	// isolated returns a destination with a log before it, nil if it has none; nil: none has one.
	isolated func(plugin, id string, start func(context.Context) (connector.Destination, error)) (connector.Destination,
		error)
}

func (r *Runner) dispense(
	ctx context.Context, typ spec.ConnectorType, plugin, id string, secrets *redact.Redactor, instance int,
) (connector.Connector, error) {
	d := dispenser{r.Catalog.Host, secrets, func(plugin, _ string) { r.started(plugin, false) }, processor.Options{},
		nil, instance, nil, nil, nil}
	if typ == spec.TypeSource {
		return d.Source(ctx, plugin, id)
	}
	return d.Destination(ctx, plugin, id)
}

// Source returns a new instance of a plugin as a source.
func (d dispenser) Source(ctx context.Context, plugin, id string) (connector.Source, error) {
	s, err := d.host.Source(ctx, plugin, connector.InstanceID(id, d.instance))
	if err != nil {
		return nil, err
	}
	d.dispensed(spec.TypeSource, plugin, id, s)
	return s, nil
}

// Destination returns a new instance of a plugin as a destination.
func (d dispenser) Destination(ctx context.Context, plugin, id string) (connector.Destination, error) {
	if d.isolated != nil {
		o, err := d.isolated(plugin, id, func(ctx context.Context) (connector.Destination, error) {
			return d.destination(ctx, plugin, id)
		})
		if o != nil || err != nil {
			return o, err
		}
	}
	return d.destination(ctx, plugin, id)
}

// destination returns a new instance without a log.
func (d dispenser) destination(ctx context.Context, plugin, id string) (connector.Destination, error) {
	s, err := d.host.Destination(ctx, plugin, connector.InstanceID(id, d.instance))
	if err != nil {
		return nil, err
	}
	d.dispensed(spec.TypeDestination, plugin, id, s)
	if installed, err := d.host.Find(plugin); d.guard != nil && err == nil && installed.Path != "" {
		return d.guard(plugin, id, s), nil
	}
	return s, nil
}

func (d dispenser) dispensed(typ spec.ConnectorType, plugin, id string, connector any) {
	d.started(d.name(plugin), id)
	logs, ok := connector.(interface {
		LogThrough(wrap func(slog.Handler) slog.Handler, redact func(string) string)
	})
	if ok && d.stats != nil { // first, so that reports are redacted
		reports := reportsOf(d.stats, typ, id)
		logs.LogThrough(func(h slog.Handler) slog.Handler { return reportHandler{h, reports} }, d.secrets.Text)
	}
	if ok && d.secrets.Len() > 0 {
		logs.LogThrough(d.secrets.Handler, d.secrets.Text)
	}
	if ok && d.deadLetters != nil && strings.HasSuffix(id, ":"+spec.QueueID) && d.name(plugin) == "builtin:log" {
		logs.LogThrough(d.deadLetters.Handler, d.secrets.Text)
	}
}

// ByName turns the path of an executable into the name of its plugin. It returns other references unchanged.
func (d dispenser) ByName(plugin string) string {
	if strings.Contains(plugin, "/") {
		return d.name(plugin)
	}
	return plugin
}

// name returns the kind and the name of the plugin to which a reference refers, without its version.
func (d dispenser) name(plugin string) string {
	installed, err := d.host.Find(plugin)
	if err != nil { // its executable was removed after its start
		return plugin
	}
	return string(installed.Kind) + ":" + installed.Name
}

// WithDefaults returns settings completed with the defaults that the plugin declares.
func (d dispenser) WithDefaults(plugin string, settings map[string]string) map[string]string {
	installed, err := d.host.Find(plugin)
	if err != nil { // its executable was removed after its start
		return settings
	}
	return installed.Destination.ApplyDefaults(settings)
}

// tally counts by name. The zero tally is ready to use.
type tally struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]uint64{}
	}
	t.n[name]++
}

func (t *tally) all() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}
