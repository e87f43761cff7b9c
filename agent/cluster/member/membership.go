// Package member makes an agent a member of the cluster named in its settings, and shows the cluster in the agent's
// API. Package cluster then runs the declarations in the agent's store. The loop, the runs and the dead letters of the
// agent get Parts that depend on the claims.
//
// A standalone agent has a nil *Membership. Methods whose comment names that case may be called on it. A build with the
// tag minimal or no_cluster rejects the settings of a cluster.
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
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// Needs holds the dependencies of a Membership. All fields are set.
type Needs struct {
	Settings    config.Cluster
	Version     string // of the agent, for other members
	Log         *slog.Logger
	Store       *store.DB
	DeadLetters *deadletter.Store // on the disk of this agent
	Schemas     schema.Registry   // of the agent. New completes a registry created by Schemas
	Loop        *reconcile.Loop   // runs the pipelines of the agent
	// Delete calls LifecycleOnDeleted of a connector of a pipeline that was deleted from the cluster.
	Delete func(ctx context.Context, c *spec.ConnectorState) error
	// Moved is called when the owner of a pipeline changes. It must not block.
	Moved func()
	// Address returns the address of the agent's API, for the other members, or "" if the API is not served. It is
	// called during Run.
	Address func() string
}

// Parts replace parts of an agent that is a member of a cluster. All fields are set.
type Parts struct {
	// Runs is the store of runs. The position and the connectors of a cluster pipeline move with its claim.
	Runs engine.Store
	// States is the store of the loop. It stores connectors as Runs does.
	States reconcile.Store
	// Replicas stores checkpoints, and the dead letters that they cover, in the cluster.
	Replicas commit.Replicas
	// DeadLetters combines the dead letters of the cluster and those on the disk of this agent.
	DeadLetters DeadLetters
	// Replayed is DeadLetters for replays: this agent need not own the pipeline.
	Replayed deadletter.DeadLetters
	// Keep takes over a record that a run on this agent refuses.
	Keep func(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error
	// Totals returns the totals of the dead letters that this agent, and no other member, reports in its metrics.
	Totals func(ctx context.Context) ([]rest.DeadLetterTotals, error)
	// Stats returns the counters of the cluster. It returns within seconds.
	Stats func() telemetry.Cluster
	// Instance returns the number of the instance of a pipeline whose claim this agent has, or 0 if it has none.
	Instance func(pipelineID string) int
	// Epoch returns the epoch of this agent's claim of a pipeline; ok is false if it has none.
	Epoch func(pipelineID string) (epoch uint64, ok bool)
	// Hold blocks until a run of a pipeline that began with a claim may write its next records, or ctx ends.
	Hold func(ctx context.Context, pipelineID string) error
	// Elsewhere reports whether this agent should neither run a pipeline nor, if it is withdrawn, clean up after it.
	Elsewhere func(pipelineID string, withdrawn bool) bool
	// Tried records the results of versions of a pipeline, for the next owner. It does not block.
	Tried func(pipelineID string, t reconcile.Tried)
	// InFile returns f. Pipelines that members of a cluster do not run as declared are marked as invalid. path is the
	// name of the file.
	InFile func(path string, f spec.File) spec.File
}

// DeadLetters holds the dead letters of all members of a cluster for the API.
type DeadLetters interface {
	api.DeadLetterStore
	// Forget drops all dead letters of a pipeline, and resets the count of dropped ones. found reports whether there
	// was anything to drop.
	Forget(ctx context.Context, pipeline string) (found bool, err error)
}

// Store is an agent's own store for its API. Declarations, starts, stops and position changes of cluster pipelines
// through the API apply to all members.
type Store struct {
	*store.DB
	DeadLetters DeadLetters // deleted when their pipeline is purged
	Membership  *Membership // nil for a standalone agent
}

// Purge implements desired.Store. It deletes the dead letters of the pipeline together with its history.
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

// View is the view that the API of a member gives of the cluster.
type View struct {
	Membership *Membership // nil for a standalone agent
}

// alone returns the instances of a pipeline with several declared instances that runs on this agent only. It returns
// nil for other pipelines.
func alone(d *spec.Declaration) *rest.Instances {
	if !d.Pipeline.Instances.Several() {
		return nil
	}
	return &rest.Instances{Declared: d.Pipeline.Instances, Running: []rest.InstancePlacement{}, Message: "this agent runs it once: it is no member of a cluster, or the pipeline is none of the cluster's"}
}
