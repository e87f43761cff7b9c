// Package protocol connects the checks of package plugintest to a connector over the connector protocol, as an agent
// connects to an executable.
package protocol

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// Executable returns the Target.Start of the executable at path. Each check runs it as a process with the
// environment env, as NAME=value; nil is the environment of the test.
func Executable(path string, env []string) func(timeout time.Duration) plugintest.Host {
	return start(standalone.Client{Path: path, Env: env})
}

// InProcess returns the Target.Start of a connector that this process serves.
func InProcess(c sdk.Connector) func(timeout time.Duration) plugintest.Host {
	return start(standalone.Client{Connector: &c})
}

func start(client standalone.Client) func(timeout time.Duration) plugintest.Host {
	return func(timeout time.Duration) plugintest.Host {
		c := client
		c.CallTimeout, c.StopTimeout = timeout, timeout
		c.Schemas = &standalone.SchemaServer{Registry: &schema.Memory{}}
		return host{&c}
	}
}

// host implements plugintest.Host.
type host struct{ client *standalone.Client }

// Specification requests the specification of the connector.
func (h host) Specification(ctx context.Context) (sdk.Specification, error) {
	return h.client.Specify(ctx)
}

// Source starts a source.
func (h host) Source(ctx context.Context, connectorID string) (connector.Source, error) {
	return h.client.Source(ctx, connectorID)
}

// Destination starts a destination.
func (h host) Destination(ctx context.Context, connectorID string) (connector.Destination, error) {
	return h.client.Destination(ctx, connectorID)
}
