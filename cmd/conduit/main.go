// Command conduit keeps the pipelines declared in a directory of YAML files running. It contains everything there is;
// conduit-edge is a small binary for small hosts.
package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/mcp"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/cmd/conduit/tools"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

func main() {
	sandbox.Launch()
	if tools.StandIn() {
		return
	}
	cli.Main(cli.Parts{
		Plugins:        parts.Plugins(),
		References:     reference.Kinds(),
		Cluster:        parts.Cluster(),
		Profiles:       parts.Profiles(),
		Isolate:        parts.Isolate,
		Exporter:       parts.Exporter,
		ToolServer:     mcp.Handler,
		Site:           docs.Site,
		Docs:           tools.Docs,
		Commands:       []func(*cli.Program) *ffcli.Command{tools.Prove, tools.MCP},
		PluginCommands: []func(*cli.Program) *ffcli.Command{tools.PluginsInit, tools.PluginsSDK},
	})
}
