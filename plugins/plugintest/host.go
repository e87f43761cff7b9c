package plugintest

import (
	"cmp"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Host starts instances of the connector to check.
type Host interface {
	// Specification returns the specification of the connector.
	Specification(ctx context.Context) (sdk.Specification, error)
	// Source starts a source that is not configured. Teardown must be called on it.
	Source(ctx context.Context, connectorID string) (connector.Source, error)
	// Destination starts a destination as Source starts a source.
	Destination(ctx context.Context, connectorID string) (connector.Destination, error)
}

// host is a Host and its Target.
type host struct {
	Target
	Host
}

func newHost(target Target) *host {
	target.Timeout = cmp.Or(target.Timeout, 5*time.Second)
	if target.Start != nil {
		return &host{target, target.Start(target.Timeout)}
	}
	return &host{target, newInProcess(target)}
}

// inProcess runs a connector in the process of the test, with a separate schema registry.
type inProcess struct {
	name string
	host *plugins.Host
}

func newInProcess(target Target) inProcess {
	c, d := target.Connector, target.Timeout
	sdk.Standard(c) // panics here reach the test, while a host recovers them
	if target.Source != nil {
		c.NewSource().Parameters()
	}
	if target.Destination != nil {
		c.NewDestination().Parameters()
	}
	return inProcess{string(pluginname.Builtin) + ":" + c.Name, &plugins.Host{
		Builtin: []sdk.Connector{c}, Schemas: &schema.Memory{},
		Timeouts: plugins.BuiltinTimeouts{Configure: d, Open: d, Lifecycle: d, Teardown: d}}}
}

// Specification implements Host.
func (p inProcess) Specification(context.Context) (sdk.Specification, error) {
	found, err := p.host.Find(p.name)
	return found.Specification, err
}

// Source implements Host.
func (p inProcess) Source(ctx context.Context, connectorID string) (connector.Source, error) {
	return p.host.Source(ctx, p.name, connectorID)
}

// Destination implements Host.
func (p inProcess) Destination(ctx context.Context, connectorID string) (connector.Destination, error) {
	return p.host.Destination(ctx, p.name, connectorID)
}

const (
	sourceID      = "plugintest:source"
	destinationID = "plugintest:destination"
)

// source starts a source that is not configured. It is torn down after the check if the check did not do so.
func (c *checker) source() connector.Source {
	c.Helper()
	s, err := c.host.Host.Source(c.ctx, sourceID)
	c.must(err, "cannot start the source")
	return &onceSource{Source: s, once: c.teardownOnce(s)}
}

// destination starts a destination as source starts a source.
func (c *checker) destination() connector.Destination {
	c.Helper()
	d, err := c.host.Host.Destination(c.ctx, destinationID)
	c.must(err, "cannot start the destination")
	return &onceDestination{Destination: d, once: c.teardownOnce(d)}
}

// once makes Teardown the last call of a connector, and makes it only once.
type once struct {
	connector connector.Connector
	done      bool
	err       error
}

type onceSource struct {
	connector.Source
	*once
}

type onceDestination struct {
	connector.Destination
	*once
}

func (c *checker) teardownOnce(p connector.Connector) *once {
	o := &once{connector: p}
	c.Cleanup(func() { _ = o.Teardown(context.WithoutCancel(c.ctx)) })
	return o
}

// Teardown ends the connector on the first call.
func (o *once) Teardown(ctx context.Context) error {
	if !o.done {
		o.done, o.err = true, o.connector.Teardown(ctx)
	}
	return o.err
}

// Teardown ends the source.
func (s *onceSource) Teardown(ctx context.Context) error { return s.once.Teardown(ctx) }

// Teardown ends the destination.
func (d *onceDestination) Teardown(ctx context.Context) error { return d.once.Teardown(ctx) }

// crash ends a connector without warning: its process is killed. A connector in this process is torn down without a
// stop.
func (c *checker) crash(o *once) {
	c.Helper()
	if p, ok := o.connector.(interface{ PID() int }); ok && p.PID() != 0 {
		c.must(syscall.Kill(-p.PID(), syscall.SIGKILL), "cannot kill the connector")
		_ = o.Teardown(c.ctx) // its error does not count
		return
	}
	c.must(o.Teardown(c.ctx), "Teardown")
}

// teardown tears a connector down, which must succeed.
func (c *checker) teardown(p connector.Connector, after string, args ...any) {
	c.Helper()
	if err := p.Teardown(c.ctx); err != nil {
		c.Errorf("Teardown after %s: %v", fmt.Sprintf(after, args...), err)
	}
}
