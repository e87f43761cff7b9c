package main

import "github.com/peterbourgon/ff/v3/ffcli"

func (p *program) pipelinesCommand() *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:        "pipelines",
		ShortUsage:  "conduit pipelines COMMAND [flags]",
		ShortHelp:   "Write and check pipeline files.",
		LongHelp:    "Example:\n  conduit pipelines validate pipelines",
		Subcommands: []*ffcli.Command{p.pipelinesInitCommand(), p.validateCommand(), p.planCommand()},
	})
}
