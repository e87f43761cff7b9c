package progress

import (
	"slices"
	"sync"
	"time"
)

// Skip is an item of a system that a source leaves out, so that the others are read.
type Skip struct {
	Of    string    `json:"of" doc:"File, line, table, or what else is left out."`
	Error string    `json:"error" doc:"Why it is left out."`
	Since time.Time `json:"since" doc:"Since when."`
}

const (
	maxSkips  = 20   // of a Report
	keptSkips = 1000 // of a Skips; the oldest ones beyond are forgotten
)

// Skips keeps what a source leaves out. The zero Skips is ready to use, by several goroutines.
type Skips struct {
	mu  sync.Mutex
	all []Skip // guarded by mu; the newest is the last
}

// Add notes that an item is left out because of err. It reports whether that is news: the item was not left out before, or
// for another reason.
func (s *Skips) Add(of string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(of); i >= 0 {
		news := s.all[i].Error != err.Error()
		s.all[i].Error = err.Error()
		return news
	}
	if len(s.all) == keptSkips {
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, Skip{Of: of, Error: err.Error(), Since: time.Now()})
	return true
}

// Remove notes that an item is not left out any more. It reports whether it was.
func (s *Skips) Remove(of string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(of)
	if i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	return i >= 0
}

func (s *Skips) index(of string) int {
	return slices.IndexFunc(s.all, func(o Skip) bool { return o.Of == of })
}

// List returns what is left out, the newest first and no more than a Report has.
func (s *Skips) List() []Skip {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.all[max(0, len(s.all)-maxSkips):])
	slices.Reverse(list)
	return list
}
