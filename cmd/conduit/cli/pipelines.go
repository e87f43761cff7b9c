package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// pipelinesCommand returns 'conduit pipelines' and the commands below it.
func pipelinesCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "pipelines",
		ShortUsage: "conduit pipelines COMMAND [flags]",
		ShortHelp:  "Write and check pipeline files; show and control pipelines.",
		LongHelp: `init, validate, plan, test and dry-run need no running agent; all other commands do.

Example:
  conduit pipelines validate pipelines`,
		Subcommands: []*ffcli.Command{
			pipelinesInitCommand(p), upgradeCommand(p), validateCommand(p), planCommand(p), pipelinesTestCommand(p),
			dryRunCommand(p),
			pipelinesListCommand(p), pipelinesDescribeCommand(p),
			startCommand(p), stopCommand(p), restartCommand(p),
			trendCommand(p), historyCommand(p), diffCommand(p), rollbackCommand(p), deleteCommand(p), purgeCommand(p),
			exportCommand(p), importCommand(p), applyCommand(p), adoptCommand(p),
		},
	})
}
