package generator

import (
	"bytes"
	"hash/maphash"
	"maps"
	"sync"
	"weak"
)

// contents holds the files of all generators. A file that several generators repeat is in memory once.
var contents struct {
	mu   sync.Mutex
	seed maphash.Seed
	all  map[uint64]weak.Pointer[[]byte] // guarded by mu: by hash
}

// shared returns the equal content of another generator, or else content itself. The caller holds contents.mu, and must
// not change the result.
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
