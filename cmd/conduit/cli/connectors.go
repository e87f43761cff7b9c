package cli

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// connectorsCommand returns 'conduit connectors' and the commands below it.
func connectorsCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "connectors",
		ShortUsage: "conduit connectors COMMAND [flags]",
		ShortHelp:  "Show connectors and the records that pass through them.",
		LongHelp:   "These commands talk to the running agent.\n\nExample:\n  conduit connectors inspect orders:shop",
		Subcommands: []*ffcli.Command{connectorsListCommand(p), connectorsDescribeCommand(p), positionCommand(p),
			inspectCommand(p)},
	})
}

func connectorsListCommand(p *Program) *ffcli.Command {
	var pipeline string
	return p.Remote("ls", RemoteCommand{
		Usage: "conduit connectors ls",
		Short: "List the connectors.",
		Long:  "Example:\n  conduit connectors ls --pipeline orders",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&pipeline, "pipeline", "", "only those of pipeline `ID`")
		},
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			list, err := r.Connectors(ctx, pipeline)
			if err != nil {
				return err
			}
			if len(list) == 0 && !r.JSON {
				return r.Say(nil, "no connectors")
			}
			return r.Show(list, connectorTable(list))
		},
	})
}

// connectorTable lists connectors.
func connectorTable(list []rest.Connector) *terminal.Table {
	var t terminal.Table
	t.Add("CONNECTOR", "TYPE", "PLUGIN", "PIPELINE", "NAME")
	for _, c := range list {
		t.Add(c.ID, connectorType(c), c.Plugin, c.PipelineID, c.Config.Name)
	}
	return &t
}

func connectorType(c rest.Connector) string {
	return strings.ToLower(strings.TrimPrefix(string(c.Type), "TYPE_"))
}

func connectorsDescribeCommand(p *Program) *ffcli.Command {
	return p.Remote("describe", RemoteCommand{
		Usage: "conduit connectors describe ID",
		Short: "Show a connector, its settings and its position.",
		Long: "ID is PIPELINE:CONNECTOR. Secrets are shown as ***.\n\nExample:\n  conduit connectors describe " +
			"orders:shop",
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			c, _, err := r.Connector(ctx, args[0])
			if err != nil {
				return err
			}
			var t terminal.Table
			t.Add("id", c.ID)
			t.Add("name", terminal.Dash(c.Config.Name))
			t.Add("pipeline", c.PipelineID)
			t.Add("type", connectorType(c))
			t.Add("plugin", c.Plugin)
			if c.SourceState != nil && len(c.SourceState.Position) > 0 {
				t.Add("position", fmt.Sprintf("%.200q", c.SourceState.Position))
			}
			for _, name := range slices.Sorted(maps.Keys(c.Config.Settings)) {
				t.Add("setting", name+" = "+c.Config.Settings[name])
			}
			return r.Show(c, &t)
		},
	})
}
