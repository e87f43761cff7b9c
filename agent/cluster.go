package agent

import (
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/spec"
)

// wireCluster makes the agent a member of a cluster if the settings name one, and replaces parts of the agent by those
// that members share.
func (a *Agent) wireCluster() error {
	if a.options.Config.Cluster.Name == "" {
		return nil
	}
	if a.options.Cluster == nil {
		return clustering.ErrNone
	}
	m, parts, err := a.options.Cluster.Join(clustering.Needs{
		Settings:    a.options.Config.Cluster,
		Version:     a.options.Version,
		Log:         a.options.Log,
		Store:       a.Store,
		DeadLetters: a.ownDeadLetters,
		Schemas:     a.schemas.Registry,
		Loop:        a.Loop,
		Delete:      a.Runner.Delete,
		Moved:       a.changes.Notify,
		Address:     a.Address,
	})
	if err != nil {
		return err
	}
	a.cluster, a.members = m, parts.API
	a.desired = parts.Desired(ownStore{a.Store, parts.DeadLetters})
	a.deadLetters = parts.DeadLetters
	a.replays.DeadLetters, a.replays.Reservations = parts.Replayed, parts.Reservations
	a.Runner.Store, a.Runner.Keep, a.Runner.Instance, a.Runner.Epoch, a.Runner.WaitToWrite = parts.Runs, parts.Keep,
		parts.Instance, parts.Epoch, parts.WaitToWrite
	a.Committer.Replicas = parts.Replicas
	a.Loop.Store, a.Loop.OwnedElsewhere = parts.States, parts.OwnedElsewhere
	a.Loop.OnVersionOutcome = parts.OnVersionOutcome
	a.metrics.Cluster, a.metrics.DeadLetters = parts.Stats, totalsOf(parts.Totals, a.ownDeadLetters, a.options.Log)
	parse := a.Files.Parse
	a.Files.Parse = func(path string, data []byte) spec.File { return parts.InFile(path, parse(path, data)) }
	return nil
}
