package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/record"
)

// inspection has the options for showing passing records.
type inspection struct {
	filters words
	rate    float64
	before  bool
	pretty  bool
	n       int
	quiet   quiet
}

// words is a flag that may be given several times.
type words []string

// String implements flag.Value.
func (w *words) String() string { return strings.Join(*w, " ") }

// Set implements flag.Value.
func (w *words) Set(text string) error { *w = append(*w, text); return nil }

func inspectCommand(p *Program) *ffcli.Command {
	var i inspection
	return p.Remote("inspect", RemoteCommand{
		Usage: "conduit connectors inspect ID",
		Short: "Watch the records that pass through a connector.",
		Long: `ID is PIPELINE:CONNECTOR. Shows the records that a source reads or a destination writes. On a terminal
every field has its own line, and text is shown as text. Elsewhere each record is one line of JSON, as
in dead letters: raw data is text, or "base64:…" for bytes that are not text. --pretty and
--pretty=false override the choice.

The command continues across restarts of the pipeline and never slows it down: records that exceed the
rate or arrive too fast are dropped from the output and counted. While no record arrives it shows why.

Examples:
  conduit connectors inspect orders:shop --rate 2
  conduit connectors inspect orders:archive --before
  conduit connectors inspect orders:shop -n 10 --filter operation=delete --filter metadata.opencdc.collection=users`,
		Arguments: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.Var(&i.filters, "filter",
				"only records with operation=`NAME` or metadata.KEY=VALUE; all filters must match")
			fs.Float64Var(&i.rate, "rate", 0, "maximum `NUMBER` of records per second")
			fs.BoolVar(&i.before, "before", false, "for a destination, show records before its processors")
			fs.BoolVar(&i.pretty, "pretty", p.Terminal, "human-readable output; default on a terminal")
			fs.Func("n", "exit after this `NUMBER` of records", i.setNumber)
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error { return inspect(ctx, r, args[0], &i) },
	})
}

func (i *inspection) setNumber(text string) (err error) {
	if i.n, err = strconv.Atoi(text); err != nil || i.n < 1 {
		return errors.New("must be an integer of at least 1")
	}
	return nil
}

// errSeen ends an inspection after enough records.
var errSeen = errors.New("seen enough")

func inspect(ctx context.Context, r *Remote, id string, i *inspection) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	var options []client.Option
	if i.rate != 0 {
		options = append(options, client.Query("rate", strconv.FormatFloat(i.rate, 'f', -1, 64)))
	}
	c, _, err := r.Connector(ctx, id)
	if err != nil {
		return err
	}
	i.quiet.Remote, i.quiet.connector, i.quiet.filtered = r, c, len(i.filters) > 0
	asking, end := context.WithCancel(ctx)
	var silent sync.WaitGroup
	silent.Go(func() { i.quiet.run(asking) })
	defer silent.Wait()
	defer end()
	inspect := r.Inspect
	if i.before {
		inspect = r.InspectIn
	}
	err = inspect(ctx, id, i.filters, func(m client.Message) error { return i.show(r, m) }, options...)
	switch {
	case errors.Is(err, errSeen), ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		return errors.New("the agent has shut down")
	}
	return err
}

func (i *inspection) show(r *Remote, m client.Message) error {
	if m.Dropped > 0 {
		if r.JSON {
			_, err := fmt.Fprintf(r.Stdout, `{"dropped":%d}`+"\n", m.Dropped)
			return err
		}
		fmt.Fprintf(r.Stderr, "conduit: %s dropped\n", terminal.Count(int(m.Dropped), "record"))
		return nil
	}
	if err := i.write(r, m.Result); err != nil {
		return err
	}
	if i.quiet.seen.Add(1) == int64(i.n) {
		return errSeen
	}
	return nil
}

func (i *inspection) write(r *Remote, inspected []byte) error {
	format := "%s\n"
	switch {
	case r.JSON:
		format = `{"result":%s}` + "\n"
	case i.pretty:
		return writeRecord(r.Stdout, int(i.quiet.seen.Load())+1, inspected, r.Paint)
	}
	one, err := record.ParseInspectJSON(inspected)
	if err != nil {
		return fmt.Errorf("cannot read a record: %w", err)
	}
	readable, err := record.AppendReadable(nil, &one)
	if err != nil {
		return fmt.Errorf("cannot show a record: %w", err)
	}
	text := string(readable)
	if r.Terminal {
		text = terminal.Clean(text) // records are untrusted
	}
	_, err = fmt.Fprintf(r.Stdout, format, text)
	return err
}
