// Command conduit-edge is conduit for small hosts: the same agent without the connectors and processors that need large
// libraries, and without clusters, isolation of destinations, telemetry for a collector, tools for language models, the
// documentation, profiles, Zstandard, HTTP/2, and the commands for these. Executables in connectors.path run as usual.
//
// Build tags, and the parts of SQLite that are left out, are in .ci/build.
package main

import (
	"slices"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/processor/enrich"
	"github.com/conduit-agent/conduit/plugins/processor/fields"
	"github.com/conduit-agent/conduit/plugins/processor/flow"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/processor/window"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func main() {
	sandbox.Launch()
	cli.Main(cli.Parts{
		Plugins: catalog.Plugins{
			Connectors: connectors,
			Processors: processors(),
			Hint:       "this is conduit-edge, which contains few plugins; the full binary, conduit, has all",
		},
		References: reference.Kinds(),
	})
}

func connectors(o exec.Options) []sdk.Connector {
	return []sdk.Connector{exec.Connector(o), file.Connector(nil), generator.Connector(), log.Connector(),
		spool.Connector()}
}

func processors() []sdk.ProcessorPlugin {
	return slices.Concat(enrich.Plugins(), fields.Plugins(), flow.Plugins(), httpcall.Plugins(), window.Plugins())
}
