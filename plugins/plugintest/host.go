package plugintest

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// host makes instances of the connector that is checked.
type host struct {
	Target
	client    *standalone.Client // nil when the connector is called as it is
	inProcess *plugins.Host      // nil when it is reached over the connector protocol
}

// newHost returns a host that lends the connector a registry of schemas of its own.
func newHost(t *testing.T, target Target) *host {
	target.Timeout = cmp.Or(target.Timeout, 5*time.Second)
	d := target.Timeout
	registry := &schema.Memory{}
	client := &standalone.Client{Path: target.Path, Env: target.Env, CallTimeout: d, StopTimeout: d}
	if target.Path == "" {
		sdk.Standard(target.Connector) // whose panics, unlike those in a host, are seen
		if target.Source != nil {
			target.Connector.NewSource().Parameters()
		}
		if target.Destination != nil {
			target.Connector.NewDestination().Parameters()
		}
		client.Connector = &target.Connector
	}
	if target.Path == "" && !target.Wire {
		return &host{Target: target, inProcess: &plugins.Host{Builtin: []sdk.Connector{target.Connector}, Schemas: registry,
			Timeouts: plugins.Timeouts{Configure: d, Open: d, Lifecycle: d, Teardown: d}}}
	}
	client.Schemas = &standalone.SchemaServer{Registry: registry}
	return &host{Target: target, client: client}
}

func (h *host) name() string {
	if h.Path != "" {
		return filepath.Base(h.Path)
	}
	return string(pluginname.Builtin) + ":" + h.Connector.Name
}

func (h *host) specification(ctx context.Context) (sdk.Specification, error) {
	if h.client != nil {
		return h.client.Specify(ctx)
	}
	p, err := h.inProcess.Find(h.name())
	return p.Specification, err
}

const (
	sourceID      = "plugintest:source"
	destinationID = "plugintest:destination"
)

// source starts a source that is not configured. It is torn down after the check if the
// check did not do so.
func (c *checker) source() connector.Source {
	c.Helper()
	var s connector.Source
	var err error
	if c.host.client != nil {
		s, err = c.host.client.Source(c.ctx, sourceID)
	} else {
		s, err = c.host.inProcess.Source(c.ctx, c.host.name(), sourceID)
	}
	c.must(err, "cannot start the source")
	return &onceSource{Source: s, once: c.teardownOnce(s)}
}

// destination starts a destination as source starts a source.
func (c *checker) destination() connector.Destination {
	c.Helper()
	var d connector.Destination
	var err error
	if c.host.client != nil {
		d, err = c.host.client.Destination(c.ctx, destinationID)
	} else {
		d, err = c.host.inProcess.Destination(c.ctx, c.host.name(), destinationID)
	}
	c.must(err, "cannot start the destination")
	return &onceDestination{Destination: d, once: c.teardownOnce(d)}
}

// once makes Teardown the last call that a connector gets, and the only one of its kind.
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

// Teardown ends the connector the first time it is called.
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

// crash ends a connector without a word: its process is killed. One in this process is
// torn down without having been stopped.
func (c *checker) crash(o *once) {
	c.Helper()
	if p, ok := o.connector.(interface{ PID() int }); ok && p.PID() != 0 {
		c.must(syscall.Kill(-p.PID(), syscall.SIGKILL), "cannot kill the connector")
		_ = o.Teardown(c.ctx) // its error does not count
		return
	}
	c.must(o.Teardown(c.ctx), "Teardown")
}

// teardown ends a connector, which must succeed.
func (c *checker) teardown(p connector.Connector, after string, args ...any) {
	c.Helper()
	if err := p.Teardown(c.ctx); err != nil {
		c.Errorf("Teardown after %s: %v", fmt.Sprintf(after, args...), err)
	}
}
