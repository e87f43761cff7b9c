// Package reconcile makes the running pipelines match their declarations. Its Loop reads desired state from the store,
// compares it with the observed state in package plan, and performs the resulting actions, with one goroutine for each
// pipeline. Package files brings the pipeline files into the store, and package watch observes them.
//
// The Loop is level-triggered: an event only wakes it. It then plans everything that changed since it last read the
// store, and everything once a minute.
package reconcile

import (
	"context"

	"github.com/conduit-agent/conduit/spec"
)

// Store is the part of the store that the Loop needs.
type Store interface {
	// DeclarationsSince returns the changes of desired state, withdrawn pipelines included, since a revision that it
	// returned before. It returns everything if the revision is unknown or 0.
	DeclarationsSince(ctx context.Context, revision int64) (spec.Delta[spec.Declaration], error)
	// States returns the last saved state of every pipeline, by id.
	States(ctx context.Context) ([]spec.State, error)
	// SaveStates replaces the states of these pipelines and records events, in one transaction.
	SaveStates(ctx context.Context, states []spec.State, events ...spec.Event) error
	// ConnectorStatesSince returns the changes of connector states since a revision that it returned before. It returns
	// all states if the revision is unknown or 0.
	ConnectorStatesSince(ctx context.Context, revision int64) (spec.Delta[spec.ConnectorState], error)
	// ConnectorStates returns every connector that was ever started, by id.
	ConnectorStates(ctx context.Context) ([]spec.ConnectorState, error)
	// SaveConnectorState replaces the state of one connector. The caller does not modify *c afterwards.
	SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error
	// DeleteConnector forgets a connector: its state and its position.
	DeleteConnector(ctx context.Context, id string) error
	// DeletePipeline forgets a withdrawn pipeline: declaration, state and positions.
	// Its revisions and events stay. It refuses while the pipeline is declared or has
	// connector states left.
	DeletePipeline(ctx context.Context, id string) error
}

// Runner runs pipelines.
type Runner interface {
	// Prepare prepares a run of d's pipeline: plugins are started and have accepted their settings. Running pipelines
	// are not touched. An error says why this version cannot run.
	Prepare(ctx context.Context, d *spec.Declaration) (Run, error)
	// Delete calls LifecycleOnDeleted of a deleted connector.
	Delete(ctx context.Context, c *spec.ConnectorState) error
}

// Run is a run of a version of a pipeline.
type Run interface {
	// Run opens the connectors, calls started, and moves records until it has ended. It returns nil after drain was
	// closed and every outstanding record was settled, and an error otherwise. Cancelling ctx ends it at once, without
	// draining. When Run returns, everything it started has ended and all plugins are torn down.
	Run(ctx context.Context, drain <-chan struct{}, started func()) error
	// Amend prepares the change of a run, which has called started, to d's pipeline without ending it: the plugins that
	// d changes are started and have accepted their settings. The run is not touched. An error says why the version
	// cannot run. spec.ErrNeedsRestart means that the run cannot be amended to it.
	Amend(ctx context.Context, d *spec.Declaration) (Amendment, error)
	// Discard tears the plugins down when the run will not be used. Either Run or
	// Discard is called, once.
	Discard(ctx context.Context)
}

// Amendment is a prepared change of a run. Either Apply or Discard is called, once.
type Amendment interface {
	// Apply ends the replaced parts of the run in order, calls drained, and continues the run with the new version,
	// which moves records when Apply returns nil. After an error the run ends by itself, if it has not ended before.
	// After spec.ErrNeedsRestart it continues unchanged, and the version needs a new run. Apply returns soon after the
	// run was cancelled.
	Apply(drained func()) error
	// Discard tears down the prepared parts.
	Discard(ctx context.Context)
}

// Environmental is implemented by errors of a run that the machine causes, such as its disk, and not the version. Retry
// tries a version again that was rejected because of such an error.
type Environmental interface {
	error
	Environment() bool
}

// Staged is implemented by errors of a run that a stage causes: a connector, the dead-letter queue, or the processors
// of a pipeline or connector.
type Staged interface {
	error
	// Stage returns the qualified id of the stage, or of the owner of the processors that failed, and whether the stage
	// refused a record.
	Stage() (id string, processors, refused bool)
}

// Permanent is implemented by errors of a run for which a retry is pointless: the pipeline becomes degraded instead of
// recovering.
type Permanent interface {
	error
	Permanent() bool
}
