package progress

import (
	"slices"
	"sync"
	"time"
)

// Skip is an item of a system that a source skips, so that it can read the others.
type Skip struct {
	// Name of the skipped file, line, table or other item.
	Of string `json:"of"`
	// Reason for skipping the item.
	Error string `json:"error"`
	// Time since which the item is skipped.
	Since time.Time `json:"since"`
}

const (
	maxSkips  = 20   // skips of a Report
	keptSkips = 1000 // skips of a Skips; older ones are dropped
)

// Skips keeps the skipped items of a source. The zero Skips is ready to use, and safe for concurrent use.
type Skips struct {
	mu  sync.Mutex
	all []Skip // guarded by mu; newest last
}

// Add records that an item is skipped because of err. It reports whether this is new: the item was not skipped before,
// or for another reason.
func (s *Skips) Add(item string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(item); i >= 0 {
		news := s.all[i].Error != err.Error()
		s.all[i].Error = err.Error()
		return news
	}
	if len(s.all) == keptSkips {
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, Skip{Of: item, Error: err.Error(), Since: time.Now()})
	return true
}

// Remove records that an item is no longer skipped. It reports whether it was.
func (s *Skips) Remove(item string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(item)
	if i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	return i >= 0
}

func (s *Skips) index(item string) int {
	return slices.IndexFunc(s.all, func(o Skip) bool { return o.Of == item })
}

// List returns the skipped items, newest first and at most as many as a Report has.
func (s *Skips) List() []Skip {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.all[max(0, len(s.all)-maxSkips):])
	slices.Reverse(list)
	return list
}
