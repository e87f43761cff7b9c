// Package group runs goroutines that can be abandoned when they do not end.
package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// AbandonAfter is how long the goroutines of a run may take to end after its context. A
// connector in this process can ignore the end of its context for ever.
const AbandonAfter = 10 * time.Second

// Group is the goroutines of a run, each with a name for what it does.
type Group struct {
	mu      sync.Mutex
	running int            // guarded by mu: goroutines, and one more until Wait is called
	names   map[string]int // guarded by mu: how many have the name
	over    chan struct{}  // closed when none is running any more
}

// New returns a group, which is over after Wait.
func New() *Group {
	return &Group{running: 1, names: map[string]int{}, over: make(chan struct{})}
}

// Start runs f in a goroutine, unless all others have ended.
func (g *Group) Start(name string, f func()) {
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

func (g *Group) end(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name(name, -1)
	g.leave()
}

// leave counts one less, with mu held.
func (g *Group) leave() {
	if g.running--; g.running == 0 {
		close(g.over)
	}
}

// Rename says that a goroutine does something else meanwhile. It must have its former name
// again when it ends.
func (g *Group) Rename(from, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name(to, 1)
	g.name(from, -1)
}

// name adds n to those with this name, with mu held. There may be less than none for a moment: two renames
// that undo each other come in any order, and the goroutine may end between them.
func (g *Group) name(name string, n int) {
	if g.names[name] += n; g.names[name] == 0 {
		delete(g.names, name)
	}
}

// Wait waits until all goroutines have ended. Those that have not ended AbandonAfter ctx
// did are abandoned; the error names them.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	g.leave()
	g.mu.Unlock()
	return Abandonable(ctx, func() error { <-g.over; return nil }, func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Join(slices.Sorted(maps.Keys(g.names)), ", ")
	})
}

// Abandonable returns what f returns, or an error that names what it does when it has not
// returned AbandonAfter ctx ended.
func Abandonable(ctx context.Context, f func() error, name func() string) error {
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	limit := time.NewTimer(AbandonAfter)
	defer limit.Stop()
	select {
	case err := <-returned:
		return err
	case <-limit.C:
		return fmt.Errorf("cannot end %s: it has not returned %v after the end of its context", name(), AbandonAfter)
	}
}
