package main

import (
	"context"
	"flag"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
)

func startCommand(p *program) *ffcli.Command {
	return p.act("start", "started", "Start a pipeline.",
		`Returns when the pipeline runs, or with the reason why it does not. A pipeline of a file
that declares it stopped runs until the file changes.`, (*client.Client).StartPipeline)
}

func stopCommand(p *program) *ffcli.Command {
	return p.act("stop", "stopped", "Stop a pipeline.",
		`Returns when records in flight are settled and all connectors are closed. A pipeline of a
file that declares it running is stopped until the file changes. With --force it does not wait for
the records in flight: they are delivered again when the pipeline starts.`, (*client.Client).StopPipeline)
}

func restartCommand(p *program) *ffcli.Command {
	return p.act("restart", "restarted", "Stop a pipeline and start it again.",
		`Returns when it runs again. It resumes from its saved position, and uses what is now
installed of its plugins. A pipeline that waits for a retry is tried at once.`, (*client.Client).RestartPipeline)
}

// act makes a command that does something to a pipeline.
func (p *program) act(name, done, short, long string, do func(*client.Client, context.Context, string, ...client.Option) error) *ffcli.Command {
	var noWait, force bool
	return p.remote(name, remoteCommand{
		usage:     "conduit pipelines " + name + " ID",
		short:     short,
		long:      long + "\n\nExample:\n  conduit pipelines " + name + " orders",
		arguments: 1,
		flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&noWait, "no-wait", false, "return when the agent has noted it")
			if name == "stop" {
				fs.BoolVar(&force, "force", false, "cut off what does not come to rest")
			}
		},
		exec: func(ctx context.Context, r *remote, args []string) error {
			var options []client.Option
			said := args[0] + " is " + done
			if noWait {
				options, said = append(options, client.NoWait()), args[0]+" is to be "+done
			}
			if force {
				options = append(options, client.Force())
			}
			if err := do(r.Client, ctx, args[0], options...); err != nil {
				return err
			}
			if !r.json {
				return r.say(nil, "%s", said)
			}
			status, err := r.Status(ctx, args[0])
			if err != nil {
				return err
			}
			return r.writeJSON(status)
		},
	})
}
