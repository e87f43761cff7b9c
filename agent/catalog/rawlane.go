package catalog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// RawLane returns for every source of p whose connector has lines, by connector id, whether its records will pass on
// the raw lane: "on", or "off" and the reason. Settings with references have their defaults.
func (c *Catalog) RawLane(ctx context.Context, p *spec.Pipeline) map[string]string {
	host := c.known(ctx)
	var lanes map[string]string
	for i := range p.Connectors {
		source := &p.Connectors[i]
		if source.Type != spec.TypeSource {
			continue
		}
		why := noLinesFrom(ctx, host, source)
		switch {
		case why == sdk.WithoutLines:
			continue
		case why != "":
		case len(p.Processors) > 0 || p.Routed() || len(source.Processors) > 0:
			why = "processors or conditions look at the records"
		default:
			why = noLinesTo(ctx, host, p)
		}
		if lanes == nil {
			lanes = map[string]string{}
		}
		lanes[source.ID] = sdk.RawLane(why)
	}
	return lanes
}

// Notes returns the notes of the sources of p about their settings, by connector id. It leaves out sources with
// references in their settings, whose values are not known here.
func (c *Catalog) Notes(ctx context.Context, p *spec.Pipeline) map[string][]string {
	host := c.known(ctx)
	ctx = sdk.WithEnv(ctx, &sdk.Env{Logger: slog.New(slog.DiscardHandler), AllowPath: host.AllowPath})
	var all map[string][]string
	for i := range p.Connectors {
		source := &p.Connectors[i]
		connector := builtinConnector(host, source.Plugin)
		if source.Type != spec.TypeSource || connector == nil || connector.NewSource == nil ||
			slices.ContainsFunc(slices.Collect(maps.Values(source.Settings)), hasReference) {
			continue
		}
		s := sdk.Standard(*connector).NewSource()
		n, ok := s.(sdk.Noter)
		if !ok || s.Configure(ctx, s.Parameters().ApplyDefaults(source.Settings)) != nil {
			continue
		}
		if notes := n.Notes(ctx); len(notes) > 0 {
			if all == nil {
				all = map[string][]string{}
			}
			all[source.ID] = notes
		}
	}
	return all
}

func hasReference(value string) bool { return strings.Contains(value, "${") }

// noLinesFrom returns why a source has no lines, "" if it has.
func noLinesFrom(ctx context.Context, host *plugins.Host, c *spec.Connector) string {
	connector := builtinConnector(host, c.Plugin)
	if connector == nil || connector.NewSource == nil {
		return sdk.WithoutLines
	}
	s := sdk.Standard(*connector).NewSource()
	if s.Configure(ctx, withoutReferences(s.Parameters(), c.Settings)) != nil {
		return sdk.WithoutLines // the settings have a problem of their own
	}
	return sdk.NoLines(s)
}

// noLinesTo returns why no destination takes lines, "" if one does.
func noLinesTo(ctx context.Context, host *plugins.Host, p *spec.Pipeline) (why string) {
	for i := range p.Connectors {
		c := &p.Connectors[i]
		if c.Type != spec.TypeDestination {
			continue
		}
		own := "processors look at the records"
		if c.Isolate != nil {
			own = spec.IsolatedLines
		} else if len(c.Processors) == 0 {
			own = sdk.WithoutLines
			if connector := builtinConnector(host, c.Plugin); connector != nil && connector.NewDestination != nil {
				d := sdk.Standard(*connector).NewDestination()
				if err := d.Configure(ctx, withoutReferences(d.Parameters(), c.Settings)); err == nil {
					own = sdk.NoLines(d)
				}
			}
		}
		if own == "" {
			return ""
		}
		if why == "" {
			why = "destination " + c.ID + ": " + own
		}
	}
	return why
}
