package agent

import (
	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/spec"
)

// wireCluster makes the agent a member of a cluster if the settings name one, and replaces parts of the agent by those
// that members share.
func (a *Agent) wireCluster() error {
	m, err := member.New(member.Needs{
		Settings:    a.options.Config.Cluster,
		Version:     a.options.Version,
		Log:         a.options.Log,
		Store:       a.Store,
		DeadLetters: a.deadLetters,
		Schemas:     a.schemas.Registry,
		Loop:        a.Loop,
		Delete:      a.Runner.Delete,
		Moved:       a.changes.Notify,
		Address:     a.Address,
	})
	if m == nil {
		return err
	}
	a.cluster, a.letters, a.replays.DeadLetters = m, m.DeadLetters, m.Replayed
	a.Runner.Store, a.Runner.Keep, a.Runner.Instance, a.Runner.Epoch, a.Runner.Hold = m.Runs, m.Keep, m.Instance, m.Epoch, m.Hold
	a.Committer.Replicas = m.Replicas
	a.Loop.Store, a.Loop.Elsewhere, a.Loop.Tried = m.States, m.Elsewhere, m.Tried
	a.metrics.Cluster, a.metrics.DeadLetters = m.Stats, totalsOf(m.Totals, a.deadLetters, a.options.Log)
	parse := a.Files.Parse
	a.Files.Parse = func(path string, data []byte) spec.File { return m.InFile(path, parse(path, data)) }
	return nil
}
