package catalog

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// noModules are the modules in a directory of an agent that cannot run them.
type noModules struct{ dir string }

// Problems returns the modules in the directory.
func (m noModules) Problems() (problems []plugins.Problem) {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return nil // usually it does not exist
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".wasm") {
			problems = append(problems, plugins.Problem{
				Path:   filepath.Join(m.dir, f.Name()),
				Reason: "this binary cannot run WebAssembly; the full binary, conduit, can",
			})
		}
	}
	return problems
}

// Plugins implements Modules.
func (noModules) Plugins() []sdk.ProcessorPlugin { return nil }

// Changes implements Modules.
func (noModules) Changes() []Change { return nil }

// Await implements Modules.
func (noModules) Await(context.Context) error { return nil }

// Rescan implements Modules.
func (noModules) Rescan(context.Context) {}

// Run implements Modules.
func (noModules) Run(context.Context) error { return nil }

// Close implements Modules.
func (noModules) Close(context.Context) error { return nil }
