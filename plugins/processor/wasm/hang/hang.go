// Package hang finds records at which a module takes longer than it may, so that they can be
// refused and their pipeline goes on.
//
// After a batch took too long, records are given to the module one at a time in the next run.
// The one at which it hangs then, twice, is refused from then on.
package hang

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

const (
	maxAlone   = 2     // hangs at one record, given alone, before it is refused
	outOfWoods = 20000 // records after which what happened before is forgotten
)

// Guard remembers over the runs of pipelines at which records processors hung. The zero Guard
// is ready.
type Guard struct {
	mu       sync.Mutex
	suspects map[string]*suspect // by qualified id of the processor; guarded by mu
}

// suspect is what is known of a processor that hung.
type suspect struct {
	passed int             // records since
	at     record.Position // of the record at which it hung when it had it alone
	times  int             // how often
	limit  time.Duration   // how long it may take
}

// Alone reports whether the processor is to be given records one at a time.
func (g *Guard) Alone(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.suspects[id] != nil
}

// Hung notes that the processor took longer than limit; at is the record that it had alone,
// nil when there were others.
func (g *Guard) Hung(id string, at record.Position, limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.suspects[id]
	if s == nil {
		s = &suspect{}
		if g.suspects == nil {
			g.suspects = map[string]*suspect{}
		}
		g.suspects[id] = s
	}
	s.passed, s.limit = 0, limit
	switch {
	case len(at) == 0:
	case bytes.Equal(s.at, at):
		s.times++
	default:
		s.at, s.times = bytes.Clone(at), 1
	}
}

// Refuses returns why the record at a position is refused, nil when it is not.
func (g *Guard) Refuses(id string, at record.Position) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.suspects[id]
	if s == nil || s.times < maxAlone || !bytes.Equal(s.at, at) {
		return nil
	}
	return fmt.Errorf("the processor was given %s (processors.timeout) and did not return, %d times with this record alone", s.limit.Round(time.Millisecond), s.times)
}

// Passed notes that the processor returned n records.
func (g *Guard) Passed(id string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.suspects[id]; s != nil {
		if s.passed += n; s.passed > outOfWoods {
			delete(g.suspects, id)
		}
	}
}
