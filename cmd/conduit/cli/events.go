package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func eventsCommand(p *Program) *ffcli.Command {
	var follow bool
	var most int
	var pipeline string
	return p.Remote("events", RemoteCommand{
		Usage: "conduit events",
		Short: "Show what happened to pipelines and files.",
		Long: `Prints the newest events, the latest last: declarations, starts, stops, failures and
rollbacks. With --json each event is one line of JSON.

Examples:
  conduit events -n 50
  conduit events -f --pipeline orders`,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&follow, "f", false, "follow: print new events as they occur")
			fs.IntVar(&most, "n", 20, "maximum number to show")
			fs.StringVar(&pipeline, "pipeline", "", "only those of pipeline `ID`")
		},
		Optional: 1, // to name the flag
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if len(args) == 1 {
				return Invalidf("unexpected argument: %s; for one pipeline: conduit events --pipeline %[1]s", args[0])
			}
			if most < 0 {
				return Invalidf("-n must not be negative")
			}
			return showEvents(ctx, r, pipeline, most, follow)
		},
	})
}

func showEvents(ctx context.Context, r *Remote, pipeline string, most int, follow bool) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	newest, err := r.Events(ctx, -1, eventsPage)
	if err != nil {
		return err
	}
	last := int64(0)
	var shown []spec.Event
	for _, e := range newest {
		last = max(last, e.ID)
		if pipeline == "" || e.Pipeline == pipeline {
			shown = append(shown, e)
		}
	}
	if len(shown) == 0 && pipeline != "" {
		if _, err := r.Status(ctx, pipeline); err != nil {
			return err // there is none
		}
	}
	for _, e := range shown[max(0, len(shown)-most):] {
		if err := showEvent(r, e); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	err = r.WatchEvents(ctx, last, func(e spec.Event) error {
		if pipeline != "" && e.Pipeline != pipeline {
			return nil
		}
		return showEvent(r, e)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// eventsPage is the number of events that are read to find the ones to show.
const eventsPage = 1000

func showEvent(r *Remote, e spec.Event) error {
	if r.JSON {
		return r.WriteLine(e)
	}
	about := cmp.Or(e.Pipeline, e.File)
	color := ""
	if e.Type == spec.EventWarning {
		color = terminal.Yellow
	}
	_, err := fmt.Fprintf(r.Stdout, "%s  %s  %s  %s\n", terminal.Moment(e.At), terminal.Dash(about),
		r.Paint(e.Reason, color), terminal.OneError(e.Message))
	return err
}
