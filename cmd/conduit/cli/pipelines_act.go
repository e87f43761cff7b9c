package cli

import (
	"context"
	"flag"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
)

func startCommand(p *Program) *ffcli.Command {
	return act(p, "start", "started", "Start a pipeline.",
		`Returns when the pipeline runs, or with the reason why it cannot. If its file declares it
stopped, the pipeline runs until the file changes.`, (*client.Client).StartPipeline)
}

func stopCommand(p *Program) *ffcli.Command {
	return act(p, "stop", "stopped", "Stop a pipeline.",
		`Returns when in-flight records are settled and all connectors are closed. If its file declares it
running, the pipeline stays stopped until the file changes. With --force the command does not wait
for in-flight records: they are delivered again when the pipeline starts.`, (*client.Client).StopPipeline)
}

func restartCommand(p *Program) *ffcli.Command {
	return act(p, "restart", "restarted", "Stop a pipeline and start it again.",
		`Returns when the pipeline runs again. It resumes from its saved position, with the currently
installed versions of its plugins. A pipeline that waits for a
retry is retried at once.`, (*client.Client).RestartPipeline)
}

// act returns a command that performs an action on a pipeline.
func act(
	p *Program, name, done, short, long string, do func(*client.Client, context.Context, string,
		...client.Option) error,
) *ffcli.Command {
	var noWait, force bool
	var selected LabelSelector
	return p.Remote(name, RemoteCommand{
		Usage: "conduit pipelines " + name + " ID|-l LABELS",
		Short: short,
		Long: long + "\n\nExamples:\n  conduit pipelines " + name + " orders\n  conduit pipelines " + name +
			" -l team=shop",
		Optional: 1,
		Flags: func(fs *flag.FlagSet) {
			selectFlag(fs, &selected)
			fs.BoolVar(&noWait, "no-wait", false, "return when the agent has accepted the request")
			if name == "stop" {
				fs.BoolVar(&force, "force", false, "do not wait for in-flight records")
			}
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			var options []client.Option
			said := "is " + done
			if noWait {
				options, said = append(options, client.NoWait()), "will be "+done
			}
			if force {
				options = append(options, client.Force())
			}
			return each(ctx, r, args, selected, func(id string) error {
				if err := do(r.Client, ctx, id, options...); err != nil {
					return err
				}
				if !r.JSON {
					return r.Say(nil, "%s %s", id, said)
				}
				status, err := r.Status(ctx, id)
				if err != nil {
					return err
				}
				return r.WriteJSON(status)
			})
		},
	})
}
