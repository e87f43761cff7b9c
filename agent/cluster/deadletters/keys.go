package deadletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

const tryTimeout = 2 * time.Second // of one read or write

// retryPause is between two tries of a read or write.
var retryPause = 100 * time.Millisecond

var (
	errUnreachable = errors.New("the cluster's store, which has the dead letters of the pipeline, is out of reach")
	errAgain       = errors.New("to be tried again") // does not leave this package
)

// keys reads and changes keys of the cluster's store.
type keys struct {
	store cluster.Store
	noted func(protocol.Entry) // what was read or written
}

// swap changes a key by compare-and-swap. change gets what is there and returns for how long the new value is kept, 0 for
// ever; it fails with errAgain to be called again, and reports done when there is nothing to write. It must return the same for
// the same entry, since a write whose outcome is not known may be one that was performed: a stamp tells.
func (k keys) swap(ctx context.Context, may func() bool, key string, change func(e *protocol.Entry) (ttl time.Duration, done bool, err error)) error {
	for ctx.Err() == nil && may() {
		done, err := k.trySwap(ctx, key, change)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return ended(may)
}

// always allows requests to go on until their context ends.
func always() bool { return true }

// ended returns why trying ended.
func ended(may func() bool) error {
	if !may() {
		return cluster.ErrNotOwner
	}
	return errUnreachable
}

func (k keys) trySwap(ctx context.Context, key string, change func(e *protocol.Entry) (time.Duration, bool, error)) (bool, error) {
	e, err := k.read(ctx, key)
	if err != nil {
		return false, nil // it is tried again
	}
	ttl, done, err := change(&e)
	switch {
	case errors.Is(err, errAgain):
		return false, nil
	case err != nil:
		return false, err
	case !done:
		o := k.write(ctx, protocol.Write{Entry: e, TTL: ttl})
		if o.Result != protocol.Applied {
			return false, nil
		}
		e.Revision = o.Revision
	}
	k.noted(e)
	return true, nil
}

func (k keys) read(ctx context.Context, key string) (protocol.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	e, err := k.store.Read(ctx, key)
	e.Key = key
	return e, err
}

func (k keys) write(ctx context.Context, w protocol.Write) protocol.Outcome {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return k.store.Write(ctx, w)
}

// readOn reads a key, again when that fails.
func (k keys) readOn(ctx context.Context, may func() bool, key string) (e protocol.Entry, err error) {
	for ctx.Err() == nil && may() {
		if e, err = k.read(ctx, key); err == nil {
			return e, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	if err != nil {
		return e, fmt.Errorf("%w: %w", ended(may), err)
	}
	return e, ended(may)
}
