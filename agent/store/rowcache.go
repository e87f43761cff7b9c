package store

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/spec"
)

// Cache holds the rows of a table as last committed. It is the only copy in memory: users of Since keep pointers to its
// rows, which are replaced, never modified. Its methods may be called from any goroutine.
type Cache[T any] struct {
	Key func(*T) string // returns the key of a row; set before use

	mu     sync.Mutex
	rows   map[string]*T
	sorted []*T // rows by key; nil when they must be sorted again
	// changed holds the latest keys that were put or dropped, in order. The first key made revision first+1.
	changed []string
	first   int64
}

// maxChanged is the minimum number of changes that are remembered; the maximum is twice as many.
const maxChanged = 1000

// Reset replaces all rows.
func (c *Cache[T]) Reset(rows []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = make(map[string]*T, len(rows))
	for i := range rows {
		row := rows[i] // alone, so that replacing the others frees their memory
		c.rows[c.Key(&row)] = &row
	}
	c.sorted = nil
	c.first += int64(len(c.changed)) + 1
	c.changed = nil
}

// Put replaces the row with the key of v, or adds one.
func (c *Cache[T]) Put(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.Key(&v)
	c.note(key)
	if _, known := c.rows[key]; !known {
		c.sorted = nil
	} else if i, ok := c.place(key); ok {
		c.sorted[i] = &v
	}
	c.rows[key] = &v
}

// Drop removes the row with the key.
func (c *Cache[T]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(key)
	delete(c.rows, key)
	if i, ok := c.place(key); ok {
		c.sorted = slices.Delete(c.sorted, i, i+1)
	}
}

// note records the change of a row. c.mu must be held.
func (c *Cache[T]) note(key string) {
	if len(c.changed) == 2*maxChanged {
		c.changed = append(make([]string, 0, 2*maxChanged), c.changed[maxChanged:]...)
		c.first += maxChanged
	}
	c.changed = append(c.changed, key)
}

// place returns the index of key in sorted. c.mu must be held.
func (c *Cache[T]) place(key string) (int, bool) {
	return sort.Find(len(c.sorted), func(i int) int { return strings.Compare(key, c.Key(c.sorted[i])) })
}

// Get returns the row with the key, and whether there is one.
func (c *Cache[T]) Get(key string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if row := c.rows[key]; row != nil {
		return *row, true
	}
	var none T
	return none, false
}

// All returns every row by key, in a slice that belongs to the caller.
func (c *Cache[T]) All() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]T, 0, len(c.rows))
	for _, row := range c.list() {
		all = append(all, *row)
	}
	return all
}

// list returns every row by key, in a slice that belongs to c. c.mu must be held.
func (c *Cache[T]) list() []*T {
	if c.sorted == nil {
		c.sorted = make([]*T, 0, len(c.rows))
		for _, key := range slices.Sorted(maps.Keys(c.rows)) {
			c.sorted = append(c.sorted, c.rows[key])
		}
	}
	return c.sorted
}

// Since returns the changes since revision. It returns all rows if revision is 0, too old, or from before a reset.
func (c *Cache[T]) Since(revision int64) spec.Delta[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.first + int64(len(c.changed))
	if revision < c.first || revision > now {
		return spec.Delta[T]{Revision: now, All: true, Rows: slices.Clone(c.list())}
	}
	d := spec.Delta[T]{Revision: now}
	keys := slices.Clone(c.changed[revision-c.first:])
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if row := c.rows[key]; row != nil {
			d.Rows = append(d.Rows, row)
		} else {
			d.Gone = append(d.Gone, key)
		}
	}
	return d
}
