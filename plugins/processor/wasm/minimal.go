//go:build minimal

package wasm

import (
	"context"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// Modules replaces the processors of a directory in a build that cannot run them. It reports every file in the
// directory as a Problem.
type Modules struct {
	Options // must not change after Run or Rescan was called

	mu    sync.Mutex
	paths []string // guarded by mu
}

// New returns the modules that the options describe.
func New(o Options) *Modules { return &Modules{Options: o} }

// Run watches the directory until ctx ends.
func (m *Modules) Run(ctx context.Context) error {
	return m.watch(ctx, func(ctx context.Context) bool { m.Rescan(ctx); return true })
}

// Rescan scans the directory once.
func (m *Modules) Rescan(context.Context) {
	files, _ := list(m.Dir)
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	sorting.By(paths, strings.Compare)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paths = paths
}

// Plugins returns nothing.
func (m *Modules) Plugins() []sdk.ProcessorPlugin { return nil }

// Problems returns every file with the reason that this build cannot run it.
func (m *Modules) Problems() (problems []Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range m.paths {
		problems = append(problems, Problem{path, "this build has no WebAssembly: it was built with -tags minimal"})
	}
	return problems
}

// Changes returns nothing.
func (m *Modules) Changes() []Change { return nil }

// Close does nothing.
func (m *Modules) Close(context.Context) error { return nil }
