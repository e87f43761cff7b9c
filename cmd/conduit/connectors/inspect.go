package connectors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// inspection is what to see of the records that pass.
type inspection struct {
	filters words
	rate    float64
	before  bool
	n       int
	seen    int
}

// words is a flag that may be given several times.
type words []string

// String implements flag.Value.
func (w *words) String() string { return strings.Join(*w, " ") }

// Set implements flag.Value.
func (w *words) Set(text string) error { *w = append(*w, text); return nil }

func inspectCommand(p *cli.Program) *ffcli.Command {
	var i inspection
	return p.Remote("inspect", cli.RemoteCommand{
		Usage: "conduit connectors inspect ID",
		Short: "Show the records that pass a connector, as they do.",
		Long: `ID is PIPELINE:CONNECTOR. Every record is a line of JSON: of a source as it was read, of a
destination as it is written. It goes on over restarts of the pipeline, and slows nothing
down: what is too much to show is left out, and counted.

Examples:
  conduit connectors inspect orders:shop --rate 2
  conduit connectors inspect orders:archive --before
  conduit connectors inspect orders:shop -n 10 --filter operation=delete --filter metadata.opencdc.collection=users`,
		Arguments: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.Var(&i.filters, "filter", "only records with operation=`NAME` or metadata.KEY=VALUE; several must all hold")
			fs.Float64Var(&i.rate, "rate", 0, "at most this `NUMBER` of records per second")
			fs.BoolVar(&i.before, "before", false, "of a destination, the records before its processors")
			fs.Func("n", "end after this `NUMBER` of records", i.setNumber)
		},
		Exec: func(ctx context.Context, r *cli.Remote, args []string) error { return inspect(ctx, r, args[0], &i) },
	})
}

func (i *inspection) setNumber(text string) (err error) {
	if i.n, err = strconv.Atoi(text); err != nil || i.n < 1 {
		return errors.New("must be a whole number from 1")
	}
	return nil
}

// errSeen ends an inspection.
var errSeen = errors.New("seen enough")

func inspect(ctx context.Context, r *cli.Remote, id string, i *inspection) error {
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	var options []client.Option
	if i.rate != 0 {
		options = append(options, client.Query("rate", strconv.FormatFloat(i.rate, 'f', -1, 64)))
	}
	inspect := r.Inspect
	if i.before {
		inspect = r.InspectIn
	}
	err := inspect(ctx, id, i.filters, func(m client.Message) error { return i.show(r, m) }, options...)
	switch {
	case errors.Is(err, errSeen), ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		return errors.New("the agent has ended")
	}
	return err
}

func (i *inspection) show(r *cli.Remote, m client.Message) error {
	if m.Dropped > 0 {
		if r.JSON {
			_, err := fmt.Fprintf(r.Stdout, `{"dropped":%d}`+"\n", m.Dropped)
			return err
		}
		fmt.Fprintf(r.Stderr, "conduit: %s left out\n", terminal.Count(int(m.Dropped), "record"))
		return nil
	}
	format := "%s\n"
	if r.JSON {
		format = `{"result":%s}` + "\n"
	}
	text := string(m.Result)
	if r.Terminal {
		text = terminal.Clean(text) // records are untrusted
	}
	if _, err := fmt.Fprintf(r.Stdout, format, text); err != nil {
		return err
	}
	if i.seen++; i.seen == i.n {
		return errSeen
	}
	return nil
}
