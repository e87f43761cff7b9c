package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
)

func connectorsCommand(p *program) *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:        "connectors",
		ShortUsage:  "conduit connectors COMMAND [flags]",
		ShortHelp:   "Show connectors and the records that pass them.",
		LongHelp:    "They ask the running agent.\n\nExample:\n  conduit connectors inspect orders:shop",
		Subcommands: []*ffcli.Command{connectorsListCommand(p), connectorsDescribeCommand(p), inspectCommand(p)},
	})
}

func connectorsListCommand(p *program) *ffcli.Command {
	var pipeline string
	return p.remote("ls", remoteCommand{
		usage: "conduit connectors ls",
		short: "List the connectors.",
		long:  "Example:\n  conduit connectors ls --pipeline orders",
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&pipeline, "pipeline", "", "only those of the pipeline `ID`")
		},
		exec: func(ctx context.Context, r *remote, _ []string) error {
			list, err := r.Connectors(ctx, pipeline)
			if err != nil {
				return err
			}
			if len(list) == 0 && !r.json {
				return r.say(nil, "no connectors")
			}
			return r.show(list, connectorTable(list))
		},
	})
}

func connectorTable(list []rest.Connector) *table {
	var t table
	t.add("CONNECTOR", "TYPE", "PLUGIN", "PIPELINE", "NAME")
	for _, c := range list {
		t.add(c.ID, connectorType(c), c.Plugin, c.PipelineID, c.Config.Name)
	}
	return &t
}

func connectorType(c rest.Connector) string {
	return strings.ToLower(strings.TrimPrefix(string(c.Type), "TYPE_"))
}

func connectorsDescribeCommand(p *program) *ffcli.Command {
	return p.remote("describe", remoteCommand{
		usage:     "conduit connectors describe ID",
		short:     "Show a connector, its settings and how far it got.",
		long:      "ID is PIPELINE:CONNECTOR. Secrets are shown as ***.\n\nExample:\n  conduit connectors describe orders:shop",
		arguments: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			c, _, err := r.Connector(ctx, args[0])
			if err != nil {
				return err
			}
			var t table
			t.add("id", c.ID)
			t.add("name", dash(c.Config.Name))
			t.add("pipeline", c.PipelineID)
			t.add("type", connectorType(c))
			t.add("plugin", c.Plugin)
			if c.SourceState != nil && len(c.SourceState.Position) > 0 {
				t.add("position", fmt.Sprintf("%.200q", c.SourceState.Position))
			}
			for _, name := range slices.Sorted(maps.Keys(c.Config.Settings)) {
				t.add("setting", name+" = "+c.Config.Settings[name])
			}
			return r.show(c, &t)
		},
	})
}
