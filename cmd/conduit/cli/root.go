package cli

import (
	"context"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Run runs the command that args name and returns the exit code.
func Run(ctx context.Context, p *Program, args []string) int {
	return p.Run(ctx, root(p), args)
}

// root returns the tree of all commands.
func root(p *Program) *ffcli.Command {
	flags := NewFlags("conduit")
	version := flags.Bool("version", false, "print the version")
	subcommands := slices.Concat(
		[]*ffcli.Command{
			initCommand(p), runCommand(p), pipelinesCommand(p), connectorsCommand(p), pluginsCommand(p), dlqCommand(p),
			clusterCommand(p), spoolCommand(p), storeCommand(p), statusCommand(p), eventsCommand(p), logsCommand(p),
			reloadCommand(p), notifyCommand(p), doctorCommand(p),
		},
		p.optional(p.Parts.Commands), []*ffcli.Command{migrateCommand(p), schemaCommand(p), versionCommand(p)},
	)
	all := p.Group(&ffcli.Command{
		Name:       "conduit",
		ShortUsage: "conduit COMMAND [flags]",
		ShortHelp:  "Run the pipelines declared in a directory of YAML files.",
		LongHelp: `Edit and save a file: the agent applies the change to that pipeline and to no other.

Examples:
  conduit init             create the directories and conduit.yaml
  conduit pipelines init   write a demo pipeline
  conduit run              run everything under pipelines
  conduit status           show the state of all pipelines`,
		FlagSet:     flags,
		Subcommands: subcommands,
	})
	all.Subcommands = append(all.Subcommands, helpCommand(p, all), completionCommand(p, all), manCommand(p, all))
	all.Subcommands = append(all.Subcommands, dashboards(p), alerts(p))
	if p.Parts.Site != nil {
		site := p.Parts.Site(all, p.Version, Usage)
		all.Subcommands = append(all.Subcommands, p.Parts.Docs(p, site))
		p.Docs = func(name string) ([]byte, bool) {
			files, err := site()
			content, ok := files[name]
			return content, ok && err == nil
		}
	}
	group := all.Exec
	all.Exec = func(ctx context.Context, args []string) error {
		if *version {
			return versionCommand(p).Exec(ctx, args)
		}
		if len(args) > 0 && slices.Contains(fullOnly, args[0]) {
			return Invalidf("this binary does not contain 'conduit %s'; the full binary, conduit, does", args[0])
		}
		return group(ctx, args)
	}
	return all
}

// fullOnly are the commands that only the full binary contains.
var fullOnly = []string{"docs", "mcp", "prove"}
