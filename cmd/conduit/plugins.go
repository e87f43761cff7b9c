package main

import "github.com/peterbourgon/ff/v3/ffcli"

func (p *program) pluginsCommand() *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:        "plugins",
		ShortUsage:  "conduit plugins COMMAND [flags]",
		ShortHelp:   "Write connectors.",
		LongHelp:    "Example:\n  conduit plugins init mine",
		Subcommands: []*ffcli.Command{p.pluginsInitCommand()},
	})
}
