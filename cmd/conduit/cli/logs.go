package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func logsCommand(p *Program) *ffcli.Command {
	var follow bool
	var most int
	return p.Remote("logs", RemoteCommand{
		Usage: "conduit logs [ID]",
		Short: "Show the log lines of the agent or of a pipeline.",
		Long: `Prints the last lines about the pipeline and its connectors, the latest last; without ID the lines of
the agent and of all pipelines. The agent keeps 200 lines of each in memory; its log has all of
them. With --json each line is an object.

Examples:
  conduit logs
  conduit logs -f orders
  conduit logs orders -n 500 --json`,
		Optional: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&follow, "f", false, "follow: print new lines as they are logged")
			fs.IntVar(&most, "n", 50, "maximum number to show")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if most < 0 {
				return Invalidf("-n must not be negative")
			}
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			return showLogs(ctx, r, id, most, follow)
		},
	})
}

// logsPage is the maximum number of lines in an answer.
const logsPage = 1000

func showLogs(ctx context.Context, r *Remote, id string, most int, follow bool) error {
	ctx, stop := UntilSignal(ctx)
	defer stop()
	after, known := int64(0), knownFields
	if id == "" {
		known = agentFields
	}
	lines, err := r.Logs(ctx, id, after, logsPage, false)
	if n := len(lines); n > 0 {
		after = lines[n-1].ID
		lines = lines[max(0, n-most):]
	}
	for {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range lines {
			after = lines[i].ID
			if err := showLine(r, &lines[i], known); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		lines, err = r.Logs(ctx, id, after, logsPage, true)
	}
}

var levelColors = map[string]string{"warn": terminal.Yellow, "error": terminal.Red}

// knownFields are the fields that only repeat the requested pipeline, and the record, which comes before all others.
// Without a requested pipeline, agentFields are known.
var (
	knownFields = []string{"pipeline_id", "component", "record"}
	agentFields = []string{"record"}
)

// fieldColors are the colors of fields that are not dim.
var fieldColors = map[string]string{"err": terminal.Red}

func showLine(r *Remote, line *spec.LogLine, known []string) error {
	if r.JSON {
		return r.WriteLine(line)
	}
	if line.Dropped > 0 {
		fmt.Fprintf(r.Stderr, "conduit: %s dropped\n", terminal.Count(line.Dropped, "line"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s", terminal.Moment(line.At),
		r.Paint(fmt.Sprintf("%-5s", line.Level), levelColors[line.Level]), terminal.OneLine(line.Message))
	if record, ok := line.Fields["record"]; ok {
		fmt.Fprintf(&b, "  %s%s", r.Paint("record=", terminal.Dim), terminal.OneLine(record))
	}
	for _, key := range slices.Sorted(maps.Keys(line.Fields)) {
		if !slices.Contains(known, key) {
			b.WriteString("  " + r.Paint(terminal.OneError(key+"="+line.Fields[key]),
				cmp.Or(fieldColors[key], terminal.Dim)))
		}
	}
	_, err := fmt.Fprintln(r.Stdout, b.String())
	return err
}
