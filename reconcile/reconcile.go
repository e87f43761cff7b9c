// Package reconcile makes what runs what is declared. Its Loop reads desired state from the
// store, has package plan compare it with what is observed, and performs the difference, with
// one goroutine for each pipeline. Package files brings the pipeline files into the store,
// package watch observes them.
//
// It is level-triggered: an event only wakes the loop, which then plans all that changed since
// it read the store last, and everything once a minute.
package reconcile

import (
	"context"

	"github.com/conduit-agent/conduit/spec"
)

// Store is what reconciling needs of the store.
type Store interface {
	// DeclarationsSince returns how desired state, withdrawn pipelines included, changed
	// since a revision that it returned before: all of it, if that is not known or 0.
	DeclarationsSince(ctx context.Context, revision int64) (spec.Delta[spec.Declaration], error)
	// States returns the last saved state of every pipeline, by id.
	States(ctx context.Context) ([]spec.State, error)
	// SaveStates replaces the states of these pipelines and records events, in one transaction.
	SaveStates(ctx context.Context, states []spec.State, events ...spec.Event) error
	// ConnectorStatesSince returns how the states of connectors changed since a revision that it
	// returned before: all of them, if that is not known or 0.
	ConnectorStatesSince(ctx context.Context, revision int64) (spec.Delta[spec.ConnectorState], error)
	// ConnectorStates returns every connector that was ever started, by id.
	ConnectorStates(ctx context.Context) ([]spec.ConnectorState, error)
	// SaveConnectorState replaces the state of one connector. What c points to is not changed
	// any more.
	SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error
	// DeleteConnector forgets a connector: its state and its position.
	DeleteConnector(ctx context.Context, id string) error
	// DeletePipeline forgets a withdrawn pipeline: declaration, state and positions.
	// Its revisions and events stay. It refuses while the pipeline is declared or has
	// connector states left.
	DeletePipeline(ctx context.Context, id string) error
}

// Runner makes pipelines run.
type Runner interface {
	// Prepare makes a run of d's pipeline ready to go: plugins are started and have
	// accepted their settings. Nothing that runs is touched. An error says why this
	// version cannot run.
	Prepare(ctx context.Context, d *spec.Declaration) (Run, error)
	// Delete calls LifecycleOnDeleted of a connector that is no more.
	Delete(ctx context.Context, c *spec.ConnectorState) error
}

// Run is one run of one version of a pipeline.
type Run interface {
	// Run opens the connectors, calls started, and moves records until it has ended:
	// nil after drain was closed and every record outstanding was settled, an error
	// otherwise. Cancelling ctx ends it at once, without draining. When Run returns,
	// everything it started has ended and all plugins are torn down.
	Run(ctx context.Context, drain <-chan struct{}, started func()) error
	// Amend makes ready what turns the run, which has called started, into one of d's
	// pipeline while it goes on: the plugins that d changes are started and have accepted
	// their settings. Nothing that runs is touched. An error says why that version cannot
	// run; spec.ErrNeedsRestart, that the run cannot become it.
	Amend(ctx context.Context, d *spec.Declaration) (Amendment, error)
	// Discard tears the plugins down when the run will not be used. Either Run or
	// Discard is called, once.
	Discard(ctx context.Context)
}

// Amendment is what a run can be changed by. Either Apply or Discard is called, once.
type Amendment interface {
	// Apply has the run end in order what the change replaces, calls drained, and has it
	// go on with the new version: that moves records when Apply returns nil. After an
	// error the run ends by itself, if it has not ended before; spec.ErrNeedsRestart says
	// that it goes on as it was, and takes a new run now. Apply returns soon after the run was
	// cancelled.
	Apply(drained func()) error
	// Discard tears down what was made ready.
	Discard(ctx context.Context)
}

// Environmental is implemented by errors of a run whose cause is the machine, such as its disk, and not the
// version that ran. A version that was refused for one is tried again by Retry.
type Environmental interface {
	error
	Environment() bool
}

// Staged is implemented by errors of a run that have a stage as their cause: a connector, the dead-letter queue, or the
// processors of a pipeline or connector.
type Staged interface {
	error
	// Stage returns the qualified id of the stage, or of what declares the processors that failed, and whether it
	// refused a record.
	Stage() (id string, processors, refused bool)
}

// Permanent is implemented by errors of a run that trying again will not mend: the
// pipeline becomes degraded instead of recovering.
type Permanent interface {
	error
	Permanent() bool
}
