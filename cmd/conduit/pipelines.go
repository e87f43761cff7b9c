package main

import "github.com/peterbourgon/ff/v3/ffcli"

func pipelinesCommand(p *program) *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:       "pipelines",
		ShortUsage: "conduit pipelines COMMAND [flags]",
		ShortHelp:  "Write and check pipeline files; show and control pipelines.",
		LongHelp: `init, validate, plan, test and dry-run need no running agent, the others do.

Example:
  conduit pipelines validate pipelines`,
		Subcommands: []*ffcli.Command{
			pipelinesInitCommand(p), upgradeCommand(p), validateCommand(p), planCommand(p), testCommand(p), dryRunCommand(p),
			pipelinesListCommand(p), pipelinesDescribeCommand(p),
			startCommand(p), stopCommand(p), restartCommand(p),
			historyCommand(p), diffCommand(p), rollbackCommand(p), purgeCommand(p), exportCommand(p), adoptCommand(p),
		},
	})
}
