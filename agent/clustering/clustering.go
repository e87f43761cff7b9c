// Package clustering declares the interface between an agent and its cluster. An agent outside a cluster is Alone.
// Package member implements the membership in a cluster; a binary without that package cannot join one.
package clustering

import (
	"context"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// Cluster is what a binary contains of clusters. All fields are set.
type Cluster struct {
	// Join makes an agent a member of the cluster that its settings name. An error reports wrong settings. The store of
	// the cluster need not answer yet; Run of the membership waits for it.
	Join func(Needs) (Member, Overrides, error)
	// Schemas returns the registry that all members share, with copies in own. Join completes it.
	Schemas func(c config.Cluster, own schema.IDRegistry) schema.Registry
	// InFile returns f with the problems that keep members from running pipelines as declared. path is the name of the
	// file.
	InFile func(path string, f spec.File) spec.File
	// Check returns the name of the product that stores the cluster, and the reason why it cannot be used.
	Check func(ctx context.Context, c config.Cluster) (product string, err error)
}

// Needs holds the dependencies of a Member. All fields are set.
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

// Overrides replace parts of an agent that is a member of a cluster. All fields are set.
type Overrides struct {
	// Desired returns the store for the agent's API. own is that of an agent outside a cluster. Declarations, starts,
	// stops and moves of positions apply to all members.
	Desired func(own OwnStore) OwnStore
	// API shows the cluster in the API, and drains this member.
	API api.Member
	// Runs is the store of runs. The position and the connectors of a cluster pipeline move with its claim.
	Runs engine.Store
	// States is the store of the loop. It stores connectors as Runs does.
	States reconcile.Store
	// Replicas stores checkpoints, and the dead letters that they cover, in the cluster.
	Replicas engine.Replicas
	// DeadLetters combines the dead letters of the cluster and those on the disk of this agent.
	DeadLetters DeadLetters
	// Replayed is DeadLetters for replays: this agent need not own the pipeline.
	Replayed deadletter.DeadLetters
	// Reservations keep other members from replaying the dead letters of a pipeline at the same time.
	Reservations deadletter.Reservations
	// Keep takes over a record that a run on this agent refuses.
	Keep func(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error
	// Totals returns the totals of the dead letters that this agent, and no other member, reports in its metrics.
	Totals func(ctx context.Context) ([]spec.DeadLetterTotals, error)
	// Stats returns the counters of the cluster. It returns within seconds.
	Stats func() telemetry.Cluster
	// Instance returns the number of the instance of a pipeline whose claim this agent has, or 0 if it has none.
	Instance func(pipelineID string) int
	// Epoch returns the epoch of this agent's claim of a pipeline; ok is false if it has none.
	Epoch func(pipelineID string) (epoch uint64, ok bool)
	// WaitToWrite blocks until a run of a pipeline that began with a claim may write its next records, or ctx ends.
	WaitToWrite func(ctx context.Context, pipelineID string) error
	// OwnedElsewhere reports whether this agent should neither run a pipeline nor, if it is withdrawn, clean up after
	// it.
	OwnedElsewhere func(pipelineID string, withdrawn bool) bool
	// OnVersionOutcome records the results of versions of a pipeline, for the next owner. It does not block.
	OnVersionOutcome func(pipelineID string, t reconcile.VersionOutcome)
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

// OwnStore is the store of an agent's API outside a cluster.
type OwnStore interface {
	api.Store
	api.Checkpoints
}

// Member is the part that an agent takes in a cluster.
type Member interface {
	// Run takes part until ctx ends. The pipelines stop when ending is done.
	Run(ctx, ending context.Context) error
	// Leave hands the pipelines, which must all have stopped, to other members. It returns within seconds.
	Leave(ctx context.Context)
	// Changed reports that the declarations may have changed. It does not block.
	Changed()
	// Joined returns the reason why this agent cannot run pipelines of the cluster.
	Joined() error
	// Problems returns the reasons why members do not run a pipeline as it is declared.
	Problems(p *spec.Pipeline) []spec.Problem
	// KeepsConnectors reports whether the connectors of a pipeline are left to another member.
	KeepsConnectors(pipeline string) bool
	// Unplaced reports whether a pipeline belongs to the cluster and no member has it.
	Unplaced(id string) bool
	// Assignment returns where a pipeline runs, if another member should run it; otherwise nil.
	Assignment(id string) *spec.Assignment
	// Instances returns the instances of a pipeline that declares several; otherwise nil.
	Instances(d *spec.Declaration) *spec.RunningInstances
	// Terms returns how a pipeline takes part in the cluster, nil if it does not.
	Terms(id string) *spec.EffectiveTerms
	// DeadLettersElsewhere returns the numbers of dead letters of a pipeline on other members.
	DeadLettersElsewhere(id string) []spec.MemberDeadLetters
}
