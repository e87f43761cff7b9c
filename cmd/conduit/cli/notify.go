package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// notifyCommand returns 'conduit notify' and the commands below it.
func notifyCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "notify",
		ShortUsage: "conduit notify COMMAND [flags]",
		ShortHelp:  "Test the notifications of the agent.",
		LongHelp: `An agent with notify.webhook.url or notify.command.run sends a notification when a pipeline
fails, is rolled back, is silent for longer than its max-silence or recovers, and when a
pipeline file has a problem.

Example:
  conduit notify test`,
		Subcommands: []*ffcli.Command{notifyTestCommand(p)},
	})
}

// errFailed ends the command when a target did not accept the notification, which was printed.
var errFailed = errors.New("")

func notifyTestCommand(p *Program) *ffcli.Command {
	return p.Remote("test", RemoteCommand{
		Usage: "conduit notify test",
		Short: "Send a test notification from the running agent.",
		Long: `The agent signs it with its secret and sends it from its host. The exit code is 1 when the
webhook or the command failed. The agent does not retry.

Example:
  conduit notify test`,
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			results, err := r.TestNotifications(ctx)
			if err != nil {
				return err
			}
			for _, one := range results {
				if !one.Delivered {
					err = errFailed
				}
			}
			if r.JSON {
				return errors.Join(r.WriteJSON(results), err)
			}
			for _, one := range results {
				took := time.Duration(one.Seconds * float64(time.Second)).Round(time.Millisecond)
				outcome := r.Paint("delivered", terminal.Green) + fmt.Sprintf(" in %v", took)
				if !one.Delivered {
					outcome = r.Paint("failed", terminal.Red) + ": " + terminal.OneLine(one.Error)
				}
				if _, werr := fmt.Fprintf(r.Stdout, "%s  %s\n", one.Target, outcome); werr != nil {
					return werr
				}
			}
			return err
		},
	})
}
