package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

// states are the observed states of pipelines.
const states table[spec.State] = "states"

// States returns the last saved state of every pipeline, by id. Unlike what else is
// observed they are not held in memory: who changes them knows them.
func (db *DB) States(ctx context.Context) (all []spec.State, err error) {
	err = db.use(func(p *pools) error {
		all, err = states.read(ctx, p.reader)
		return err
	})
	return all, wrap(err, "cannot read states of pipelines")
}

// SaveStates replaces the states of these pipelines and records events, in one transaction.
func (db *DB) SaveStates(ctx context.Context, all []spec.State, events ...spec.Event) error {
	texts := make([]string, len(all))
	for i := range all {
		state := all[i]
		state.Bound()
		var err error
		if texts[i], err = encode(&state); err != nil {
			return wrap(err, "cannot save the state of pipeline %q", all[i].PipelineID)
		}
	}
	err := db.write(ctx, func(tx *sql.Tx) error {
		for i := range all {
			if err := states.replace(tx, all[i].PipelineID, texts[i]); err != nil {
				return err
			}
		}
		return db.insertEvents(tx, events)
	}, nil)
	return wrap(err, "cannot save the states of %d pipelines", len(all))
}

// ConnectorStates returns every connector that was ever started, by id. What the values
// point to is shared and must not be changed; so it is with everything the store returns.
func (db *DB) ConnectorStates(ctx context.Context) ([]spec.ConnectorState, error) {
	return cached(db, "states of connectors", func() []spec.ConnectorState { return db.connectors.All() })
}

// ConnectorStatesSince returns how the states of connectors changed since a revision that it
// returned before, or all of them, as DeclarationsSince does.
func (db *DB) ConnectorStatesSince(ctx context.Context, revision int64) (spec.Delta[spec.ConnectorState], error) {
	return cached(db, "states of connectors", func() spec.Delta[spec.ConnectorState] { return db.connectors.Since(revision) })
}

// ConnectorState returns the state of a connector, nil if it was never started.
func (db *DB) ConnectorState(ctx context.Context, id string) (*spec.ConnectorState, error) {
	return cached(db, fmt.Sprintf("state of connector %q", id), func() *spec.ConnectorState {
		if c, ok := db.connectors.Get(id); ok {
			return &c
		}
		return nil
	})
}

// SaveConnectorState replaces the state of one connector. What c points to must not be
// changed any more.
func (db *DB) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	do, committed, err := db.connectors.prepare(c)
	if err == nil {
		err = db.write(ctx, do, committed)
	}
	return wrap(err, "cannot save the state of connector %q", c.ID)
}

// DeleteConnector forgets a connector: its state and its position. Forgetting one
// that is not known is not an error.
func (db *DB) DeleteConnector(ctx context.Context, id string) error {
	err := db.write(ctx, func(tx *sql.Tx) error {
		if err := db.connectors.remove(tx, id); err != nil {
			return err
		}
		_, err := exec(tx, `DELETE FROM positions WHERE connector_id = ?`, id)
		return err
	}, func() { db.connectors.Drop(id) })
	return wrap(err, "cannot forget connector %q", id)
}

// FileStates returns what is known of the pipeline files, by path.
func (db *DB) FileStates(ctx context.Context) ([]spec.FileState, error) {
	return cached(db, "states of files", func() []spec.FileState { return db.files.All() })
}

// cached reads what is held in memory, after making sure that it is what the file says.
func cached[T any](db *DB, what string, get func() T) (v T, err error) {
	err = db.use(func(*pools) error {
		v = get()
		return nil
	})
	return v, wrap(err, "cannot read %s", what)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
