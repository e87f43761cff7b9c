package tools

import (
	"context"
	"flag"
	"os"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/mcp"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// MCP returns 'conduit mcp'.
func MCP(p *cli.Program) *ffcli.Command {
	var write bool
	return p.Remote("mcp", cli.RemoteCommand{
		Usage: "conduit mcp",
		Short: "Serve tools for a language model on standard input and output.",
		Long: `Speaks the Model Context Protocol (MCP). An MCP client, such as an editor or a chat program, starts
this command. Its tools send requests to the running agent: they read the state, logs, events, records,
dead letters, metrics and documentation, check pipeline files and plan changes. With --write there is
also a tool that applies a plan to a pipeline of the API.

A program that reaches the API over HTTP can use its path /mcp instead.

Examples:
  conduit mcp
  conduit mcp --write --api.address edge-7.example.com:8080`,
		NoJSON: true,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&write, "write", false, "allow the model to apply planned changes")
		},
		Exec: func(ctx context.Context, r *cli.Remote, _ []string) error {
			ctx, stop := cli.UntilSignal(ctx)
			defer stop()
			out, _ := r.Streams()
			return mcp.Serve(ctx, mcp.Stdio{In: os.Stdin, Out: out, Agent: r.Renewed, Version: r.Version, Write: write,
				Explain: r.Explain})
		},
	})
}
