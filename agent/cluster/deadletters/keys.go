package deadletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

const tryTimeout = 2 * time.Second // for one read or write

// retryPause is the time between two attempts of a read or write.
var retryPause = 100 * time.Millisecond

var (
	errUnreachable = errors.New("the store of the cluster, which has the dead letters of the pipeline, is unreachable")
	errAgain       = errors.New("to be tried again") // does not leave this package
)

// keys reads and changes keys of the cluster's store.
type keys struct {
	store cluster.Store
	noted func(protocol.Entry) // called with each entry read or written
}

// swap changes a key by compare-and-swap. change receives the present entry, edits it, and returns the lifetime of the
// new value; 0 means for ever. It returns errAgain to be called again, and done if there is nothing to write. A write
// with an unknown outcome may have been applied, so change must recognize its own write in the entry, by a stamp.
func (k keys) swap(
	ctx context.Context, may func() bool, key string, change func(e *protocol.Entry) (ttl time.Duration, done bool,
		err error),
) error {
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

// always lets requests continue until their context ends.
func always() bool { return true }

// ended returns the reason why the attempts ended.
func ended(may func() bool) error {
	if !may() {
		return cluster.ErrNotOwner
	}
	return errUnreachable
}

func (k keys) trySwap(
	ctx context.Context, key string, change func(e *protocol.Entry) (time.Duration, bool, error),
) (bool, error) {
	e, err := k.read(ctx, key)
	if err != nil {
		return false, nil // the caller tries again
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

// readOn reads a key. It retries after a failure.
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
