package agent

import (
	"cmp"
	"context"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
)

// storage is what the agent saves in: the store at path and the dead-letter store next to it.
type storage struct {
	store       *store.DB
	deadLetters *deadletter.Store
	path        string
}

// fault returns why something could not be saved when that was tried last, nil if it was.
func (s storage) fault() error { return cmp.Or(s.store.Fault(), s.deadLetters.Fault()) }

// past returns why something could not be saved since it was called last, nil if everything was.
func (s storage) past() error { return cmp.Or(s.store.Past(), s.deadLetters.Past()) }

// probe saves what changes nothing, where saving failed, and only if there is space for more.
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
