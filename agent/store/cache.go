package store

import (
	"slices"
	"strings"
	"sync"
)

// cache holds the rows of a table as last committed. Values are replaced, never modified.
type cache[T any] struct {
	key func(*T) string

	mu     sync.Mutex
	rows   map[string]T
	sorted []T // rows by key; nil when they are to be sorted anew
}

// reset replaces everything by rows.
func (c *cache[T]) reset(rows []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = make(map[string]T, len(rows))
	for i := range rows {
		c.rows[c.key(&rows[i])] = rows[i]
	}
	c.sorted = nil
}

func (c *cache[T]) put(v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.key(&v)
	if _, known := c.rows[key]; !known {
		c.sorted = nil
	} else if i, ok := c.place(key); ok {
		c.sorted[i] = v
	}
	c.rows[key] = v
}

func (c *cache[T]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, key)
	if i, ok := c.place(key); ok {
		c.sorted = slices.Delete(c.sorted, i, i+1)
	}
}

// place returns where key is in sorted. c.mu is held.
func (c *cache[T]) place(key string) (int, bool) {
	return slices.BinarySearchFunc(c.sorted, key, func(v T, key string) int { return strings.Compare(c.key(&v), key) })
}

func (c *cache[T]) get(key string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.rows[key]
	return v, ok
}

// all returns every row by key, in a slice of the caller's own.
func (c *cache[T]) all() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		c.sorted = make([]T, 0, len(c.rows))
		for _, v := range c.rows {
			c.sorted = append(c.sorted, v)
		}
		slices.SortFunc(c.sorted, func(a, b T) int { return strings.Compare(c.key(&a), c.key(&b)) })
	}
	return append([]T{}, c.sorted...)
}
