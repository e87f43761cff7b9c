package main

import (
	"context"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/cluster"
	"github.com/conduit-agent/conduit/cmd/conduit/connectors"
	"github.com/conduit-agent/conduit/cmd/conduit/dlq"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/cmd/conduit/doctor"
	"github.com/conduit-agent/conduit/cmd/conduit/monitoring"
	"github.com/conduit-agent/conduit/cmd/conduit/notify"
	"github.com/conduit-agent/conduit/cmd/conduit/pipelines"
	"github.com/conduit-agent/conduit/cmd/conduit/plugins"
	"github.com/conduit-agent/conduit/cmd/conduit/prove"
	"github.com/conduit-agent/conduit/cmd/conduit/spool"
	"github.com/conduit-agent/conduit/cmd/conduit/store"
)

// root returns the tree of all commands.
func root(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("conduit")
	version := flags.Bool("version", false, "print the version")
	subcommands := slices.Concat(
		[]*ffcli.Command{initCommand(p), runCommand(p), pipelines.Command(p), connectors.Command(p), plugins.Command(p), dlq.Command(p)},
		cluster.Commands(p),
		[]*ffcli.Command{spool.Command(p), store.Command(p), statusCommand(p), eventsCommand(p), logsCommand(p), reloadCommand(p), notify.Command(p), doctor.Command(p)},
		prove.Commands(p), migrateCommands(p), []*ffcli.Command{schemaCommand(p), versionCommand(p)},
	)
	all := p.Group(&ffcli.Command{
		Name:       "conduit",
		ShortUsage: "conduit COMMAND [flags]",
		ShortHelp:  "Keep the pipelines declared in a directory of YAML files running.",
		LongHelp: `Edit a file and save: that pipeline, and only that one, becomes what the file says.

Examples:
  conduit init             make the directories and conduit.yaml
  conduit pipelines init   write a demo pipeline
  conduit run              run everything under pipelines
  conduit status           see what runs`,
		FlagSet:     flags,
		Subcommands: subcommands,
	})
	all.Subcommands = append(all.Subcommands, helpCommand(p, all), completionCommand(p, all), manCommand(p, all))
	all.Subcommands = append(all.Subcommands, monitoring.Commands(p)...)
	site := docs.Of(all, p.Version)
	all.Subcommands = append(all.Subcommands, docs.Command(p, site))
	p.Docs = func(name string) ([]byte, bool) {
		files, err := site()
		content, ok := files[name]
		return content, ok && err == nil
	}
	group := all.Exec
	all.Exec = func(ctx context.Context, args []string) error {
		if *version {
			return versionCommand(p).Exec(ctx, args)
		}
		return group(ctx, args)
	}
	return all
}
