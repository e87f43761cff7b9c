// Package pipelines has the commands 'conduit pipelines ...'.
package pipelines

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// Command returns 'conduit pipelines' and the commands below it.
func Command(p *cli.Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "pipelines",
		ShortUsage: "conduit pipelines COMMAND [flags]",
		ShortHelp:  "Write and check pipeline files; show and control pipelines.",
		LongHelp: `init, validate, plan, test and dry-run need no running agent, the others do.

Example:
  conduit pipelines validate pipelines`,
		Subcommands: []*ffcli.Command{
			initCommand(p), upgradeCommand(p), validateCommand(p), planCommand(p), testCommand(p), dryRunCommand(p),
			listCommand(p), describeCommand(p),
			startCommand(p), stopCommand(p), restartCommand(p),
			historyCommand(p), diffCommand(p), rollbackCommand(p), deleteCommand(p), purgeCommand(p), exportCommand(p), importCommand(p), applyCommand(p), adoptCommand(p),
		},
	})
}
