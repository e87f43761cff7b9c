package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
)

// overrideFormat is the format of overrides that this version writes, and the newest that it reads.
const overrideFormat = 1

// Override is a person's request, made on any member, to run or stop a pipeline regardless of its declaration. It ends
// when the declaration changes.
type Override struct {
	Format   int         `json:"format"`
	ID       string      `json:"id"` // random: unique per override
	Pipeline string      `json:"pipeline"`
	Status   spec.Status `json:"status"`
	Digest   string      `json:"digest"` // of the declaration
	Member   string      `json:"member"` // that received the request
	At       time.Time   `json:"at"`     // by the clock of Member, informational

	revision uint64
}

// Override returns the latest override of a pipeline; Pipeline is empty if there is none.
func (m *Member) Override(pipeline string) Override {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overrides[pipeline]
}

// noteOverride records an entry of the store. It reports whether the entry is an override that was not known.
func (m *Member) noteOverride(e protocol.Entry) bool {
	var o Override
	if json.Unmarshal(e.Value, &o) != nil || o.Format > overrideFormat {
		return false
	}
	o.revision = e.Revision
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.revision <= m.overrides[o.Pipeline].revision {
		return false
	}
	m.overrides[o.Pipeline] = o
	return true
}

// SetOverride makes all members run or stop a pipeline as long as its declaration has this digest. When it fails it may
// take effect nevertheless.
func (m *Member) SetOverride(ctx context.Context, pipeline string, status spec.Status, digest string) error {
	m.init()
	o := Override{Format: overrideFormat, ID: newID(), Pipeline: pipeline, Status: status, Digest: digest,
		Member: m.Self.Agent, At: time.Now()}
	value, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("cannot encode the request for pipeline %q: %w", pipeline, err)
	}
	err = Swap(ctx, m.Store, protocol.OverrideKey(pipeline), func(e *protocol.Entry) (done bool, err error) {
		var present Override
		done = json.Unmarshal(e.Value, &present) == nil && present.ID == o.ID // by an earlier attempt
		e.Value = value
		return done, nil
	}, func(e protocol.Entry) { m.noteOverride(e) })
	if err != nil {
		return fmt.Errorf("cannot publish the request for pipeline %q to the other members of the cluster: %w",
			pipeline, err)
	}
	return nil
}

// dropOverride makes the override of a deleted pipeline expire. Every member tries this once.
func dropOverride(ctx context.Context, store Store, pipeline string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	e, err := store.Read(ctx, protocol.OverrideKey(pipeline))
	var o Override
	if err != nil || e.Value == nil || json.Unmarshal(e.Value, &o) != nil || o.Digest == "" {
		return
	}
	// An override without a digest applies to no declaration.
	value, err := json.Marshal(Override{Format: overrideFormat, ID: newID(), Pipeline: pipeline})
	if err == nil {
		e.Key, e.Value = protocol.OverrideKey(pipeline), value
		store.Write(ctx, protocol.Write{Entry: e, TTL: ttl})
	}
}

// dropVersions makes the version record of a pipeline expire, as dropOverride does. id is the id of the claim.
func dropVersions(ctx context.Context, store Store, id string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	e, err := store.Read(ctx, protocol.VersionsKey(id))
	if err != nil || e.Value == nil || e.State == nil {
		return
	}
	value, err := json.Marshal(map[string]any{"format": 1, "id": id})
	if err == nil {
		e.Key, e.Value, e.State = protocol.VersionsKey(id), value, nil
		store.Write(ctx, protocol.Write{Entry: e, TTL: ttl})
	}
}

// errUnreachable reports that the store gave no answer in time.
var errUnreachable = errors.New("its store is unreachable")

// Swap changes a key by compare-and-swap and calls swapped with the resulting entry. After an attempt with an unknown
// outcome it reads the entry again; change then reports in done whether the entry already has its change. Swap gives up
// when change fails.
func Swap(
	ctx context.Context, store Store, key string, change func(*protocol.Entry) (done bool, err error),
	swapped func(protocol.Entry),
) error {
	for ctx.Err() == nil {
		done, err := trySwap(ctx, store, key, change, swapped)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return errUnreachable
}

func trySwap(
	ctx context.Context, store Store, key string, change func(*protocol.Entry) (bool, error),
	swapped func(protocol.Entry),
) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	e, err := store.Read(ctx, key)
	if err != nil {
		return false, nil // the caller tries again
	}
	e.Key = key
	if done, err = change(&e); err != nil {
		return false, err
	}
	if !done {
		o := store.Write(ctx, protocol.Write{Entry: e})
		done, e.Revision = o.Result == protocol.Applied, o.Revision
	}
	if done && swapped != nil {
		swapped(e)
	}
	return done, nil
}
