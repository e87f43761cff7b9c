package agent

import (
	"cmp"
	"context"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
)

// storage is the storage of the agent: the store at path and the dead-letter store next to it.
type storage struct {
	store       *store.DB
	deadLetters *deadletter.Store
	path        string
}

// fault returns the error of the last attempt to save, nil if it succeeded.
func (s storage) fault() error { return cmp.Or(s.store.Fault(), s.deadLetters.Fault()) }

// past returns the error of a failed attempt to save since its last call, nil if all succeeded.
func (s storage) past() error { return cmp.Or(s.store.Past(), s.deadLetters.Past()) }

// probe makes a save without effect in the stores whose last save failed, and only if there is space for more.
func (s storage) probe(ctx context.Context) error {
	if err := sqlitefile.Room(s.path); err != nil {
		return err
	}
	var store, deadLetters error
	if s.store.Fault() != nil {
		store = s.store.Probe(ctx)
	}
	if s.deadLetters.Fault() != nil {
		deadLetters = s.deadLetters.Probe(ctx)
	}
	return cmp.Or(store, deadLetters)
}
