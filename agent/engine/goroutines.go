package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// abandonAfter is how long the goroutines of a run may take to end after its context. A connector in this process can
// ignore that its context has ended.
const abandonAfter = 10 * time.Second

// goroutines are the goroutines of a run. Each has a name that describes its purpose. Goroutines that do not end are
// abandoned.
type goroutines struct {
	mu      sync.Mutex
	running int            // guarded by mu: number of goroutines, plus one until Wait is called
	names   map[string]int // guarded by mu: number of goroutines with each name
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

// Rename renames a goroutine while it does something else. The goroutine must have its original name when it ends.
func (g *goroutines) Rename(from, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name(to, 1)
	g.name(from, -1)
}

// name adds n to the number of goroutines with this name, with mu held. The number may be negative for a moment: two
// renames that undo each other can run in any order, and the goroutine may end between them.
func (g *goroutines) name(name string, n int) {
	if g.names[name] += n; g.names[name] == 0 {
		delete(g.names, name)
	}
}

// Wait waits until all goroutines have ended. It abandons those that have not ended within abandonAfter of the end of
// ctx, and returns an error with their names.
func (g *goroutines) Wait(ctx context.Context) error {
	g.mu.Lock()
	g.leave()
	g.mu.Unlock()
	_, err := inTime(ctx, g.over, func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Join(slices.Sorted(maps.Keys(g.names)), ", ")
	})
	return err
}

// abandonable calls f and returns its error. If f has not returned within abandonAfter of the end of ctx, abandonable
// returns an error with name.
func abandonable(ctx context.Context, f func() error, name func() string) error {
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	failed, err := inTime(ctx, returned, name)
	return cmp.Or(failed, err)
}

// inTime waits for a value of c, or for its end. If neither comes within abandonAfter of the end of ctx, inTime returns
// an error with name.
func inTime[T any](ctx context.Context, c <-chan T, name func() string) (value T, err error) {
	select {
	case value = <-c:
		return value, nil
	case <-ctx.Done():
	}
	limit := time.NewTimer(abandonAfter)
	defer limit.Stop()
	select {
	case value = <-c:
		return value, nil
	case <-limit.C:
		return value, fmt.Errorf("cannot end %s: it has not returned %v after its context ended", name(), abandonAfter)
	}
}
