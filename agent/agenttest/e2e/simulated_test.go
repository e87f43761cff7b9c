package e2e_test

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// bubble configures an agent for a bubble of testing/synctest.
type bubble struct {
	Connectors []sdk.Connector // in addition to those built in
	Poll       time.Duration   // between two scans of the pipeline files
	Confirm    time.Duration   // plan.Policy.Probation
	// Write makes every change of the store except those requested over the API. It may skip the change, or hide its
	// outcome from its waiters.
	Write func(change func() error) error
	Saved func([]spec.Checkpoint) // is called with positions when they are durable
	Gone  func(connectorID string)
}

// runIn runs an agent without anything that waits outside the bubble: no file system events, no network.
func runIn(ctx context.Context, o agent.Options, b bubble) error {
	o.Plugins.Modules = nil
	o.Wired = func(a *agent.Agent) {
		m := mortal{a.Store, &b}
		a.Catalog.Host.Builtin = append(a.Catalog.Host.Builtin, b.Connectors...)
		a.Catalog.Executables.Watch, a.Catalog.Executables.Interval = nil, time.Hour
		a.Files.Watch.PollOnly, a.Files.Watch.Poll = true, b.Poll
		a.Files.Store, a.Loop.Store, a.Runner.Store, a.Committer.Store = m, m, m, m
		a.Loop.Policy.Probation = b.Confirm
		agenttest.Unlimited(a)
	}
	return agent.Run(ctx, o)
}

// mortal is a store whose writes may be lost.
type mortal struct {
	*store.DB
	*bubble
}

func (m mortal) Apply(ctx context.Context, c *spec.Changes) error {
	return m.Write(func() error { return m.DB.Apply(ctx, c) })
}

func (m mortal) SaveStates(ctx context.Context, states []spec.State, events ...spec.Event) error {
	return m.Write(func() error { return m.DB.SaveStates(ctx, states, events...) })
}

func (m mortal) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	return m.Write(func() error { return m.DB.SaveConnectorState(ctx, c) })
}

func (m mortal) DeleteConnector(ctx context.Context, id string) error {
	return m.Write(func() error {
		err := m.DB.DeleteConnector(ctx, id)
		if err == nil {
			m.Gone(id)
		}
		return err
	})
}

func (m mortal) DeletePipeline(ctx context.Context, id string) error {
	return m.Write(func() error { return m.DB.DeletePipeline(ctx, id) })
}

func (m mortal) BeginRun(ctx context.Context, id string) (epoch int64, err error) {
	err = m.Write(func() (err error) {
		epoch, err = m.DB.BeginRun(ctx, id)
		return err
	})
	return epoch, err
}

func (m mortal) SaveCheckpoints(ctx context.Context, all []spec.Checkpoint) error {
	return m.Write(func() error {
		err := m.DB.SaveCheckpoints(ctx, all)
		if err == nil {
			m.Saved(all)
		}
		return err
	})
}
