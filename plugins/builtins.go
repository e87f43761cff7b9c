package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// builtins is the Registry of the connectors compiled in. Their instances run in the
// agent's process.
type builtins struct {
	connectors []sdk.Connector
	schemas    schema.Registry
	log        *slog.Logger
	timeouts   BuiltinTimeouts
	allowPath  func(path string) error
	syncs      *SyncGroup
	buffer     func(plugin string) sdk.Buffer
	budget     int
	stateDir   func(connectorID string) string

	once      sync.Once
	standard  []sdk.Connector // connectors with a description, with the sdk.* settings
	installed []Installed     // the same

	running uses
}

// Installed returns the connectors without those whose description panics.
func (b *builtins) Installed() []Installed {
	b.once.Do(func() {
		for _, c := range b.connectors {
			if err := b.add(c); err != nil {
				b.log.Error("cannot describe a built-in plugin", "component", "plugins", "plugin_name", c.Name, "err",
					err)
			}
		}
	})
	return b.installed
}

func (b *builtins) add(c sdk.Connector) error {
	return sdk.Contain(func() error {
		c = sdk.Standard(c)
		installed := Installed{Specification: c.Specification(), Kind: pluginname.Builtin}
		b.standard, b.installed = append(b.standard, c), append(b.installed, installed)
		return nil
	})
}

// Running implements Registry.
func (b *builtins) Running() []Running { return b.running.list() }

// Source creates a source that runs in this process.
func (b *builtins) Source(_ context.Context, use Use) (connector.Source, error) {
	c, err := b.connector(use.Plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", use.ConnectorID, err)
	}
	s := &source{}
	s.init(b, use.Plugin, use.ConnectorID)
	if b.stateDir != nil {
		s.env.StateDir = b.stateDir(use.ConnectorID)
	}
	err = sdk.Contain(func() error { s.connector = c.NewSource(); return nil })
	if err != nil {
		return nil, fmt.Errorf("cannot start source %q: %w", use.ConnectorID, s.contained(err))
	}
	s.calls = s.connector
	s.begin(b, use)
	return s, nil
}

// Destination creates a destination that runs in this process.
func (b *builtins) Destination(_ context.Context, use Use) (connector.Destination, error) {
	c, err := b.connector(use.Plugin)
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", use.ConnectorID, err)
	}
	d := &destination{}
	d.init(b, use.Plugin, use.ConnectorID)
	err = sdk.Contain(func() error { d.connector = c.NewDestination().(sdk.AsyncDestination); return nil })
	if err != nil {
		return nil, fmt.Errorf("cannot start destination %q: %w", use.ConnectorID, d.contained(err))
	}
	d.calls = d.connector
	d.begin(b, use)
	return d, nil
}

// connector returns the described connector with this name.
func (b *builtins) connector(plugin pluginname.Name) (sdk.Connector, error) {
	for i, p := range b.Installed() {
		if p.FullName() == plugin {
			return b.standard[i], nil
		}
	}
	return sdk.Connector{}, fmt.Errorf("cannot find plugin %q", plugin)
}
