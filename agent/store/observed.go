package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

// states is the table of the observed states of pipelines.
const states table[spec.State] = "states"

// States returns the last saved state of every pipeline, by id. Unlike other observed state, it is not held in memory:
// the code that changes states knows them.
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

// ConnectorStates returns the state of every connector that was ever started, by id. The caller must not change the
// shared data that the values point to. The same holds for all results of the store.
func (db *DB) ConnectorStates(ctx context.Context) ([]spec.ConnectorState, error) {
	return cached(db, "states of connectors", func() []spec.ConnectorState { return db.connectors.All() })
}

// ConnectorStatesSince returns the changes of the connector states since a revision from an earlier result, or all
// states, as DeclarationsSince does.
func (db *DB) ConnectorStatesSince(ctx context.Context, revision int64) (spec.Delta[spec.ConnectorState], error) {
	return cached(db, "states of connectors", func() spec.Delta[spec.ConnectorState] {
		return db.connectors.Since(revision)
	})
}

// ConnectorState returns the state of a connector, or nil if it was never started.
func (db *DB) ConnectorState(ctx context.Context, id string) (*spec.ConnectorState, error) {
	return cached(db, fmt.Sprintf("state of connector %q", id), func() *spec.ConnectorState {
		if c, ok := db.connectors.Get(id); ok {
			return &c
		}
		return nil
	})
}

// SaveConnectorState replaces the state of one connector. The caller must not change the data that c points to
// afterwards.
func (db *DB) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	do, committed, err := db.connectors.prepare(c)
	if err == nil {
		err = db.write(ctx, do, committed)
	}
	return wrap(err, "cannot save the state of connector %q", c.ID)
}

// DeleteConnector deletes the state and the position of a connector. Deleting an unknown connector is not an error.
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

// FileStates returns the states of the pipeline files, by path.
func (db *DB) FileStates(ctx context.Context) ([]spec.FileState, error) {
	return cached(db, "states of files", func() []spec.FileState { return db.files.All() })
}

// cached returns data held in memory, after making sure that it matches the file.
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
