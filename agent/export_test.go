package agent

import (
	"context"
	"errors"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// LimitChanges sets reconcile.Policy.MaxChanges of agents that start from now on.
func LimitChanges(n int) { maxChanges = n }

// Simulation is what makes an agent fit for a bubble of testing/synctest.
type Simulation struct {
	Connectors []sdk.Connector // beside those built in
	Poll       time.Duration   // between two looks at the pipeline files
	Confirm    time.Duration   // reconcile.Policy.Confirm
	// Write makes every change of the store but those that come over the API. It may
	// leave it, and keep the outcome from whoever waits for it.
	Write func(change func() error) error
	Saved func([]engine.Saved) // is told of positions when they are durable
	Gone  func(connectorID string)
}

// RunSimulated runs an agent like Run, without anything that waits outside of the
// bubble: no events of the file system, no network.
func RunSimulated(ctx context.Context, o Options, sim Simulation) error {
	db, err := store.Open(ctx, o.Config.DB.SQLite.Path)
	if err != nil {
		return err
	}
	a := &Agent{options: o, db: db, degraded: make(chan spec.State, 1)}
	a.wire()
	m := mortal{positions{db}, &sim}
	a.plugins.Builtin = append(a.plugins.Builtin, sim.Connectors...)
	a.found.Interval = time.Hour
	a.files.Watch.Unheard, a.files.Watch.Poll = true, sim.Poll
	a.files.Store, a.loop.Store, a.runner.store, a.committer.Store = m, m, m, m
	a.loop.Policy.Confirm = sim.Confirm
	return errors.Join(a.run(ctx), db.Close())
}

// Store returns the store of the agent.
func (a *Agent) Store() *store.DB { return a.db }

// Restart has a pipeline restarted.
func (a *Agent) Restart(ctx context.Context, id string) error { return a.loop.Restart(ctx, id) }

// SystemdStatus returns what systemd is told about the agent.
func (a *Agent) SystemdStatus(ctx context.Context) string { return a.status(ctx) }

// Ready returns why the agent is not ready.
func (a *Agent) Ready(ctx context.Context) error { return (&observed{Agent: a}).Ready(ctx) }

// Held returns the files that are gone with all others.
func (a *Agent) Held() []string { return a.files.Status().Held }

// Reads are reads of files under way.
type Reads struct{ reads }

// Within returns what read returns, unless that takes too long.
func (r *Reads) Within(ctx context.Context, patience time.Duration, name string, read func() (string, error)) (string, error) {
	return within(ctx, &r.reads, patience, name, read)
}

// Cover covers secrets in text, which are given as pairs of what was declared and the value.
func Cover(text string, pairs ...string) string {
	var s secrets
	for i := 0; i < len(pairs); i += 2 {
		s.add(pairs[i], pairs[i+1])
	}
	return s.cover(text)
}

// mortal is a store whose writes may be lost.
type mortal struct {
	positions
	*Simulation
}

func (m mortal) Apply(ctx context.Context, c *spec.Changes) error {
	return m.Write(func() error { return m.positions.Apply(ctx, c) })
}

func (m mortal) SaveStates(ctx context.Context, states []spec.State, events ...spec.Event) error {
	return m.Write(func() error { return m.positions.SaveStates(ctx, states, events...) })
}

func (m mortal) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	return m.Write(func() error { return m.positions.SaveConnectorState(ctx, c) })
}

func (m mortal) DeleteConnector(ctx context.Context, id string) error {
	return m.Write(func() error {
		err := m.positions.DeleteConnector(ctx, id)
		if err == nil {
			m.Gone(id)
		}
		return err
	})
}

func (m mortal) DeletePipeline(ctx context.Context, id string) error {
	return m.Write(func() error { return m.positions.DeletePipeline(ctx, id) })
}

func (m mortal) BeginRun(ctx context.Context, id string) (epoch int64, err error) {
	err = m.Write(func() (err error) {
		epoch, err = m.positions.BeginRun(ctx, id)
		return err
	})
	return epoch, err
}

func (m mortal) SavePositions(ctx context.Context, all []engine.Saved) error {
	return m.Write(func() error {
		err := m.positions.SavePositions(ctx, all)
		if err == nil {
			m.Saved(all)
		}
		return err
	})
}
