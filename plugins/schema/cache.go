package schema

import (
	"context"
	"fmt"
	"sync"
)

// Limits of a Cache: answers of each kind and bytes of schemas. A Cache that reaches a limit is emptied.
const (
	maxCached      = 4096
	maxCachedBytes = 16 << 20
)

// Cache is a Registry that queries another registry and caches the answers: a version of a subject never changes. It is
// safe for concurrent use; concurrent requests for the same schema may both reach the other registry.
type Cache struct {
	Registry Registry

	mu       sync.Mutex
	created  answers[createKey, Schema]
	versions answers[versionKey, Schema]
	codecs   answers[versionKey, *Codec]
	byID     answers[int, Schema]
}

// answers are the cached answers to one kind of request.
type answers[K comparable, V any] struct {
	entries map[K]V
	bytes   int // bytes of the cached schemas
}

type createKey struct {
	subject, text string
	typ           Type
}

type versionKey struct {
	subject string
	version int
}

// Create implements Registry.
func (c *Cache) Create(ctx context.Context, subject string, typ Type, text string) (Schema, error) {
	key := createKey{subject, text, typ}
	return remember(c, &c.created, key, func() (Schema, error) {
		return c.Registry.Create(ctx, subject, typ, text)
	})
}

// Get implements Registry.
func (c *Cache) Get(ctx context.Context, subject string, version int) (Schema, error) {
	return remember(c, &c.versions, versionKey{subject, version}, func() (Schema, error) {
		return c.Registry.Get(ctx, subject, version)
	})
}

// ByID implements IDRegistry. It fails if the other registry is not an IDRegistry.
func (c *Cache) ByID(ctx context.Context, id int) (Schema, error) {
	return remember(c, &c.byID, id, func() (Schema, error) {
		r, ok := c.Registry.(IDRegistry)
		if !ok {
			return Schema{}, fmt.Errorf("cannot find schema %d: the registry does not support ids", id)
		}
		return r.ByID(ctx, id)
	})
}

// Codec returns the codec of a version of a subject.
func (c *Cache) Codec(ctx context.Context, subject string, version int) (*Codec, error) {
	return remember(c, &c.codecs, versionKey{subject, version}, func() (*Codec, error) {
		s, err := c.Registry.Get(ctx, subject, version)
		if err != nil {
			return nil, err
		}
		return Parse(s.Text)
	})
}

// remember returns the answer in a, or else the answer of ask, which it caches. Errors are not cached.
func remember[K comparable, V interface{ size() int }](c *Cache, a *answers[K, V], key K, ask func() (V, error)) (V,
	error) {
	c.mu.Lock()
	v, ok := a.entries[key]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := ask()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.entries == nil || len(a.entries) >= maxCached || a.bytes+v.size() > maxCachedBytes {
		a.entries, a.bytes = map[K]V{}, 0
	}
	if _, known := a.entries[key]; !known {
		a.bytes += v.size()
	}
	a.entries[key] = v
	return v, nil
}
