package generator

import (
	"bytes"
	"hash/maphash"
	"maps"
	"sync"
	"weak"
)

// contents are those of files that generators have. Many generators repeat the same file,
// which is then in memory once.
var contents struct {
	mu   sync.Mutex
	seed maphash.Seed
	all  map[uint64]weak.Pointer[[]byte] // guarded by mu: by hash
}

// shared returns the content that a generator has already, if it is the same, with contents.mu
// held. It is not to be changed.
func shared(content []byte) *[]byte {
	c := &contents
	if c.all == nil {
		c.seed, c.all = maphash.MakeSeed(), map[uint64]weak.Pointer[[]byte]{}
	}
	maps.DeleteFunc(c.all, func(_ uint64, p weak.Pointer[[]byte]) bool { return p.Value() == nil })
	hash := maphash.Bytes(c.seed, content)
	if known := c.all[hash].Value(); known != nil && bytes.Equal(*known, content) {
		return known
	}
	c.all[hash] = weak.Make(&content)
	return &content
}
