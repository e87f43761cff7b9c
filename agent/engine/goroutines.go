package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// abandonAfter is how long the goroutines of a run may take to end after its context. A
// connector in this process can ignore the end of its context for ever.
const abandonAfter = 10 * time.Second

// goroutines are those of a run, each with a name for what it does. They can be abandoned when they do not end.
type goroutines struct {
	mu      sync.Mutex
	running int            // guarded by mu: goroutines, and one more until Wait is called
	names   map[string]int // guarded by mu: how many have the name
	over    chan struct{}  // closed when none is running any more
}

// newGoroutines returns a group, which is over after Wait.
func newGoroutines() *goroutines {
	return &goroutines{running: 1, names: map[string]int{}, over: make(chan struct{})}
}

// Start runs f in a goroutine, unless all others have ended.
func (g *goroutines) Start(name string, f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		return
	}
	g.running++
	g.name(name, 1)
	go func() {
		defer g.end(name)
		f()
	}()
}

func (g *goroutines) end(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name(name, -1)
	g.leave()
}

// leave counts one less, with mu held.
func (g *goroutines) leave() {
	if g.running--; g.running == 0 {
		close(g.over)
	}
}

// Rename says that a goroutine does something else meanwhile. It must have its former name
// again when it ends.
func (g *goroutines) Rename(from, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name(to, 1)
	g.name(from, -1)
}

// name adds n to those with this name, with mu held. There may be less than none for a moment: two renames
// that undo each other come in any order, and the goroutine may end between them.
func (g *goroutines) name(name string, n int) {
	if g.names[name] += n; g.names[name] == 0 {
		delete(g.names, name)
	}
}

// Wait waits until all goroutines have ended. Those that have not ended AbandonAfter ctx
// did are abandoned; the error names them.
func (g *goroutines) Wait(ctx context.Context) error {
	g.mu.Lock()
	g.leave()
	g.mu.Unlock()
	return abandonable(ctx, func() error { <-g.over; return nil }, func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Join(slices.Sorted(maps.Keys(g.names)), ", ")
	})
}

// abandonable returns what f returns, or an error that names what it does when it has not
// returned AbandonAfter ctx ended.
func abandonable(ctx context.Context, f func() error, name func() string) error {
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	limit := time.NewTimer(abandonAfter)
	defer limit.Stop()
	select {
	case err := <-returned:
		return err
	case <-limit.C:
		return fmt.Errorf("cannot end %s: it has not returned %v after the end of its context", name(), abandonAfter)
	}
}
