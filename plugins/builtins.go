package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// builtins is the Registry of the connectors compiled in. Their instances run in the
// agent's process.
type builtins struct {
	connectors []sdk.Connector
	schemas    schema.Registry
	log        *slog.Logger
	timeouts   Timeouts

	once  sync.Once
	specs []Specification
}

// Specifications describes the connectors. Those whose description panics are left out.
func (b *builtins) Specifications() []Specification {
	b.once.Do(func() {
		for _, c := range b.connectors {
			spec, err := specify(c)
			if err != nil {
				b.log.Error("cannot describe a built-in plugin", "component", "plugins", "plugin_name", c.Name, "err", err)
				continue
			}
			b.specs = append(b.specs, spec)
		}
	})
	return b.specs
}

// Source makes a source that runs in this process.
func (b *builtins) Source(_ context.Context, plugin Name, connectorID string) (Source, error) {
	c, err := b.connector(plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", connectorID, err)
	}
	s := &source{}
	s.init(b, plugin, connectorID)
	err = contain(func() error { s.connector = c.NewSource(); return nil })
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", connectorID, s.contained(err))
	}
	s.calls = s.connector
	return s, nil
}

// Destination makes a destination that runs in this process.
func (b *builtins) Destination(_ context.Context, plugin Name, connectorID string) (Destination, error) {
	c, err := b.connector(plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", connectorID, err)
	}
	d := &destination{}
	d.init(b, plugin, connectorID)
	err = contain(func() error { d.connector = c.NewDestination(); return nil })
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", connectorID, d.contained(err))
	}
	d.calls = d.connector
	return d, nil
}

func (b *builtins) connector(plugin Name) (sdk.Connector, error) {
	for _, c := range b.connectors {
		if nameOf(c) == plugin {
			return c, nil
		}
	}
	return sdk.Connector{}, fmt.Errorf("cannot find plugin %q", plugin)
}

func nameOf(c sdk.Connector) Name {
	return Name{Kind: KindBuiltin, Name: c.Name, Version: c.Version}
}

func specify(c sdk.Connector) (spec Specification, err error) {
	err = contain(func() error {
		spec = Specification{
			Name: nameOf(c), Summary: c.Summary, Description: c.Description, Author: c.Author,
		}
		if c.NewSource != nil {
			spec.Source = notNil(c.NewSource().Parameters())
		}
		if c.NewDestination != nil {
			spec.Destination = notNil(c.NewDestination().Parameters())
		}
		return nil
	})
	return spec, err
}

func notNil(p sdk.Parameters) sdk.Parameters {
	if p == nil {
		return sdk.Parameters{}
	}
	return p
}
