// Package member makes an agent a member of the cluster that its settings name, and shows the cluster to its API. Package
// cluster then runs what the store of the agent declares, and the agent's loop, runs and dead letters get the Parts that keep
// them to the claims.
//
// A standalone agent has a nil *Membership. Methods whose comment names that case may be called on it. A build with the tag minimal or
// no_cluster rejects the settings of a cluster.
package member

import (
	"context"
	"errors"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/commit"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api/resource"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// Needs are what a Membership needs of its agent. All are set.
type Needs struct {
	Settings    config.Cluster
	Version     string // of the agent, for the other members
	Log         *slog.Logger
	Store       *store.DB
	DeadLetters *deadletter.Store // on the disk of this agent
	Schemas     schema.Registry   // of the agent. New completes one that Schemas made
	Loop        *reconcile.Loop   // runs the pipelines of the agent
	// Delete calls LifecycleOnDeleted of a connector of a pipeline that was deleted from the cluster.
	Delete func(ctx context.Context, c *spec.ConnectorState) error
	// Moved is called when the owner of a pipeline changes. It must not block.
	Moved func()
	// Address returns that of the agent's API, for the other members; "" when it is not served. It is called within Run.
	Address func() string
}

// Parts are what takes the place of an agent's own parts when it is a member of a cluster. All are set.
type Parts struct {
	// Runs is the store of runs. The position and the connectors of a pipeline of the cluster go with its claim.
	Runs engine.Store
	// States is the store of the loop. It keeps connectors as Runs does.
	States reconcile.Store
	// Replicas are the copies in the cluster of checkpoints, and of the dead letters that they cover.
	Replicas commit.Replicas
	// DeadLetters has those of the cluster, and those on the disk of this agent.
	DeadLetters DeadLetters
	// Replayed has the same, as a replay needs it: this agent need not own the pipeline.
	Replayed deadletter.DeadLetters
	// Keep takes over a record that a run of this agent's refuses.
	Keep func(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error
	// Totals returns what there is of dead letters that this agent reports in its metrics, of which no other member does.
	Totals func(ctx context.Context) ([]rest.DeadLetterTotals, error)
	// Stats returns what is counted of the cluster. It returns within seconds.
	Stats func() telemetry.Cluster
	// Instance returns which instance of a pipeline this agent has the claim of, 0 when it has none.
	Instance func(pipelineID string) int
	// Epoch returns that of this agent's claim of a pipeline; ok is false when it has none.
	Epoch func(pipelineID string) (epoch uint64, ok bool)
	// Hold waits until a run of a pipeline that began with a claim may write its next records, or ctx has ended.
	Hold func(ctx context.Context, pipelineID string) error
	// Elsewhere reports whether this agent is not to run a pipeline, or not to clean up after one that is withdrawn.
	Elsewhere func(pipelineID string, withdrawn bool) bool
	// Tried takes what became of versions of a pipeline, for its next owner. It does not block.
	Tried func(pipelineID string, t reconcile.Tried)
	// InFile returns f with the pipelines invalid that members of a cluster do not run as they are declared. Path names
	// the file.
	InFile func(path string, f spec.File) spec.File
}

// DeadLetters are the dead letters of all members of a cluster, as the API shows and changes them.
type DeadLetters interface {
	resource.DeadLetterStore
	// Forget drops all dead letters of a pipeline, and what was counted of them. It reports whether there was anything.
	Forget(ctx context.Context, pipeline string) (found bool, err error)
}

// Store is an agent's own store as its API uses it. What the API declares, starts, stops and moves of a pipeline of the
// cluster is so for all members.
type Store struct {
	*store.DB
	DeadLetters DeadLetters // of which those of a purged pipeline go
	Membership  *Membership // nil for an agent that is alone
}

// Purge implements desired.Store. The dead letters of the pipeline go with its history.
func (s Store) Purge(ctx context.Context, id string) error {
	err := s.DB.Purge(ctx, id)
	if err != nil && !errors.Is(err, spec.ErrNotFound) {
		return err
	}
	found, forgot := s.DeadLetters.Forget(ctx, id)
	if found {
		err = nil
	}
	return errors.Join(err, forgot)
}

// View is a cluster as the API of a member shows it.
type View struct {
	Membership *Membership // nil for an agent that is alone
}

// alone returns the instances of a pipeline that is to have several and runs on this agent only, nil for others.
func alone(d *spec.Declaration) *rest.Instances {
	if !d.Pipeline.Instances.Several() {
		return nil
	}
	return &rest.Instances{Declared: d.Pipeline.Instances, Running: []rest.InstancePlacement{}, Message: "this agent runs it once: it is no member of a cluster, or the pipeline is none of the cluster's"}
}
