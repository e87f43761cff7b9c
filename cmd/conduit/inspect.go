package main

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

func inspectCommand(p *program) *ffcli.Command {
	var i inspection
	return p.remote("inspect", remoteCommand{
		usage: "conduit connectors inspect ID",
		short: "Show the records that pass a connector, as they do.",
		long: `ID is PIPELINE:CONNECTOR. Every record is a line of JSON: of a source as it was read, of a
destination as it is written. It goes on over restarts of the pipeline, and slows nothing
down: what is too much to show is left out, and counted.

Examples:
  conduit connectors inspect orders:shop --rate 2
  conduit connectors inspect orders:archive --before
  conduit connectors inspect orders:shop -n 10 --filter operation=delete --filter metadata.opencdc.collection=users`,
		arguments: 1,
		flags: func(fs *flag.FlagSet) {
			fs.Var(&i.filters, "filter", "only records with operation=`NAME` or metadata.KEY=VALUE; several must all hold")
			fs.Float64Var(&i.rate, "rate", 0, "at most this `NUMBER` of records per second")
			fs.BoolVar(&i.before, "before", false, "of a destination, the records before its processors")
			fs.Func("n", "end after this `NUMBER` of records", i.setNumber)
		},
		exec: func(ctx context.Context, r *remote, args []string) error { return r.inspect(ctx, args[0], &i) },
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

func (r *remote) inspect(ctx context.Context, id string, i *inspection) error {
	ctx, stop := untilSignal(ctx)
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

func (i *inspection) show(r *remote, m client.Message) error {
	if m.Dropped > 0 {
		if r.json {
			_, err := fmt.Fprintf(r.stdout, `{"dropped":%d}`+"\n", m.Dropped)
			return err
		}
		fmt.Fprintf(r.stderr, "conduit: %s left out\n", count(int(m.Dropped), "record"))
		return nil
	}
	format := "%s\n"
	if r.json {
		format = `{"result":%s}` + "\n"
	}
	text := string(m.Result)
	if r.terminal {
		text = printableOnly(text) // records are untrusted
	}
	if _, err := fmt.Fprintf(r.stdout, format, text); err != nil {
		return err
	}
	if i.seen++; i.seen == i.n {
		return errSeen
	}
	return nil
}
