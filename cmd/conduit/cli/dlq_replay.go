package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func replayCommand(p *Program) *ffcli.Command {
	var f deadLetterFilter
	var all, noWait bool
	var from string
	return p.Remote("replay", RemoteCommand{
		Usage: "conduit dlq replay PIPELINE [ID...]",
		Short: "Replay dead letters through the current version of their pipeline.",
		Long: `Replays dead letters in the order of refusal, each from the processor or destination
that refused it, or with --from first from the first processor, as it was read. That
needs keep-original: true in dead-letter-queue at the time of the refusal. A dead
letter is deleted when its record is settled. If it is refused again, it stays with
both errors, and the command ends with exit code 1. Select dead letters by id, by the
flags of 'conduit dlq ls', or with --all. The pipeline need not run. Ctrl-C and 'conduit
dlq cancel' end the replay after in-flight records are settled.

Examples:
  conduit dlq replay orders 17
  conduit dlq replay orders --error timeout
  conduit dlq replay orders --all
  conduit dlq replay orders --all --from first`,
		Arguments: 1,
		Optional:  maxSelected,
		Flags: func(fs *flag.FlagSet) {
			f.flags(fs)
			fs.BoolVar(&all, "all", false, "all dead letters of the pipeline")
			fs.StringVar(&from, "from", "",
				"`STAGE` to enter: refused, by its id, or first; by default refused, or what took its place")
			fs.BoolVar(&noWait, "no-wait", false, "return without waiting for the end")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			ids, err := selection(args[1:], &f, all)
			if err != nil {
				return err
			}
			request := spec.ReplayRequest{IDs: ids, All: all, From: spec.ReplayFrom(from)}
			if !f.empty() {
				request.Filter = &f.DeadLetterFilter
			}
			status, err := r.ReplayDeadLetters(ctx, args[0], request)
			if err == nil && !noWait {
				status, err = replayed(ctx, r, args[0], status)
			}
			if err != nil {
				return err
			}
			err = sayReplay(r, &status)
			if err == nil && !status.Running && !status.Cancelled {
				err = missing(args[0], len(ids), status.Read+status.Skipped)
			}
			if err == nil && status.Refused > 0 {
				err = fmt.Errorf("%d of %s refused again: 'conduit dlq ls %s' lists why", status.Refused,
					terminal.Count(int(status.Read), "dead letter"), args[0])
			}
			return err
		},
	})
}

func cancelCommand(p *Program) *ffcli.Command {
	return p.Remote("cancel", RemoteCommand{
		Usage: "conduit dlq cancel PIPELINE",
		Short: "End a replay after in-flight records are settled.",
		Long: `In a cluster, any member can cancel the replay. Returns without waiting for the end. Dead letters that
are not settled stay and can be replayed again.

Example:
  conduit dlq cancel orders`,
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			status, err := r.CancelReplay(ctx, args[0])
			if err != nil {
				return err
			}
			if !status.Running {
				if !r.JSON {
					fmt.Fprint(r.Stdout, "no replay is running; the last one: ")
				}
				return sayReplay(r, &status)
			}
			return r.Say(status, "the replay%s ends after in-flight records are settled; %s", onMember(&status),
				cmp.Or(status.Message, fmt.Sprintf("%d settled and %d refused again so far", status.Settled,
					status.Refused)))
		},
	})
}

// onMember names the other member of a cluster that runs the replay.
func onMember(s *spec.Replay) string {
	if s.Member == "" {
		return ""
	}
	return " on " + s.Member
}

// replayInterval is how often the progress of a replay is polled.
const replayInterval = 100 * time.Millisecond

// replayed returns when the replay has ended. A signal ends it.
func replayed(ctx context.Context, r *Remote, pipeline string, status spec.Replay) (spec.Replay, error) {
	interrupted, stop := UntilSignal(ctx)
	defer stop()
	signal := interrupted.Done()
	tick := time.NewTicker(replayInterval)
	defer tick.Stop()
	for started := status.Started; status.Running && status.Started.Equal(started); {
		var err error
		select {
		case <-signal:
			signal = nil
			_, err = r.CancelReplay(ctx, pipeline)
		case <-tick.C:
			status, err = r.Replay(ctx, pipeline)
		}
		if err != nil {
			return status, err
		}
	}
	return status, nil
}

func sayReplay(r *Remote, s *spec.Replay) error {
	if s.Running {
		return r.Say(s, "the replay has started")
	}
	err := r.Say(s, "%s, of which %d settled and %d refused again",
		terminal.Count(int(s.Read), "dead letter")+" replayed", s.Settled, s.Refused)
	if err == nil && s.Skipped > 0 && !r.JSON {
		err = r.Say(s, "%d skipped: they stopped the pipeline, and their source delivers them again when it runs",
			s.Skipped)
	}
	if err == nil && s.Error != "" {
		err = errors.New(s.Error)
	}
	return err
}
