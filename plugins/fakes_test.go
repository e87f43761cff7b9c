package plugins_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const connectorID = "orders:db"

// contract fails the test when a connector is called against the contract.
type contract struct {
	t       testing.TB
	calls   atomic.Int32
	acks    atomic.Int32
	ended   atomic.Bool
	mu      sync.Mutex
	history []string
}

// call records a call and checks that it is the only one, precedes Teardown, and has its Env. The returned function
// ends it.
func (c *contract) call(ctx context.Context, name string) func() {
	running := &c.calls
	if name == "Ack" {
		running = &c.acks
	}
	if running.Add(1) > 1 {
		c.t.Errorf("%s was called while another call ran", name)
	}
	if name == "Teardown" && c.acks.Load() > 0 {
		c.t.Errorf("Teardown was called while Ack ran")
	}
	if c.ended.Load() {
		c.t.Errorf("%s was called after Teardown", name)
	}
	if env := sdk.EnvFrom(ctx); env.ConnectorID != connectorID || env.PluginName != "builtin:fake" {
		c.t.Errorf("%s was called with env %+v", name, env)
	}
	c.mu.Lock()
	c.history = append(c.history, name)
	c.mu.Unlock()
	if name == "Teardown" {
		c.ended.Store(true)
	}
	return func() { running.Add(-1) }
}

func (c *contract) count(name string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.history {
		if h == name {
			n++
		}
	}
	return n
}

// fake implements the unary calls of both kinds of connectors.
type fake struct {
	contract
	on       map[string]func(ctx context.Context) error // implementation of a call; absent: no-op
	settings map[string]string                          // settings of a destination
}

func (f *fake) do(ctx context.Context, name string) error {
	defer f.call(ctx, name)()
	if fn := f.on[name]; fn != nil {
		return fn(ctx)
	}
	return nil
}

func (f *fake) Parameters() sdk.Parameters { return sdk.Parameters{"k": {Default: "d"}} }

func (f *fake) Configure(ctx context.Context, settings map[string]string) error {
	return f.do(ctx, "Configure "+fmt.Sprint(settings))
}

func (f *fake) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return f.do(ctx, "LifecycleOnCreated "+fmt.Sprint(settings))
}

func (f *fake) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return f.do(ctx, "LifecycleOnUpdated "+fmt.Sprint(before, after))
}

func (f *fake) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return f.do(ctx, "LifecycleOnDeleted "+fmt.Sprint(settings))
}

func (f *fake) Teardown(ctx context.Context) error { return f.do(ctx, "Teardown") }

type fakeSource struct {
	fake
	read func(ctx context.Context) ([]record.Record, error)
	ack  func(ctx context.Context, positions []record.Position) error
}

func (s *fakeSource) Open(ctx context.Context, pos record.Position) error {
	return s.do(ctx, "Open "+string(pos))
}

func (s *fakeSource) Read(ctx context.Context) ([]record.Record, error) {
	defer s.call(ctx, "Read")()
	return s.read(ctx)
}

func (s *fakeSource) Ack(ctx context.Context, positions []record.Position) error {
	defer s.call(ctx, "Ack")()
	return s.ack(ctx, positions)
}

type fakeDestination struct {
	fake
	write func(ctx context.Context, records []record.Record) (int, error)
}

func (d *fakeDestination) Open(ctx context.Context) error { return d.do(ctx, "Open") }

func (d *fakeDestination) Write(ctx context.Context, records []record.Record) (int, error) {
	defer d.call(ctx, "Write")()
	return d.write(ctx, records)
}

func newHost(c sdk.Connector) *plugins.Host {
	c.Name, c.Version = "fake", "v1.0.0"
	return &plugins.Host{Builtin: []sdk.Connector{c}}
}

// startSource returns f as a running source. It is torn down when the test ends.
func startSource(t testing.TB, f *fakeSource, log *slog.Logger) connector.Source {
	f.t = t
	h := newHost(sdk.Connector{NewSource: func() sdk.Source { return f }})
	h.Log = log
	s, err := h.Source(t.Context(), "fake", connectorID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	return s
}

// startDestination is like startSource for a destination, of any type built on fakeDestination.
func startDestination(
	t testing.TB, d sdk.Destination, f *fakeDestination, settled func(int, error),
) connector.Destination {
	f.t = t
	h := newHost(sdk.Connector{NewDestination: func() sdk.Destination { return d }})
	running, err := h.Destination(t.Context(), "fake", connectorID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Teardown(context.Background()) })
	if err := running.Configure(t.Context(), f.settings); err != nil {
		t.Fatal(err)
	}
	if err := running.Open(t.Context(), settled); err != nil {
		t.Fatal(err)
	}
	return running
}

// records returns n records with the positions first, first+1, …
func records(first, n int) []record.Record {
	all := make([]record.Record, n)
	for i := range all {
		all[i] = record.Record{
			Position:  record.Position(fmt.Sprint(first + i)),
			Operation: record.OperationCreate,
			After:     record.Raw([]byte("x")),
		}
	}
	return all
}
