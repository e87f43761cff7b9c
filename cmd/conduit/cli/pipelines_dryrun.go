package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func dryRunCommand(p *Program) *ffcli.Command {
	flags := NewFlags("dry-run")
	at := NewAgentFlags(flags, "pipelines.path", "processors.path")
	var a dryRun
	flags.IntVar(&a.take, "take", 0, "take `NUMBER` records that the source reads in the running agent")
	flags.StringVar(&a.input, "input", "-", "file with one JSON record per line; - is standard input")
	flags.BoolVar(&a.Base64, "base64", false, "raw data in the input is base64, as the file destination writes it")
	flags.StringVar(&a.Pipeline, "pipeline", "", "id of the pipeline, if the file declares several")
	flags.StringVar(&a.Source, "source", "", "id of the source that reads the records, if there are several")
	flags.DurationVar(&a.advance, "advance", 0, "virtual time to wait after the last record, so that windows end")
	flags.StringVar(&a.start, "start", "", "virtual start time in RFC 3339; default now")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	return &ffcli.Command{
		Name:       "dry-run",
		ShortUsage: "conduit pipelines dry-run FILE [--input RECORDS | --take NUMBER] [flags]",
		ShortHelp:  "Show the effect of the processors of a pipeline on records.",
		LongHelp: `Runs records through the processors of a pipeline file and shows the fields that each processor
changes. No connector is opened, and time is virtual. Records have the same form as in dead letters and
the log: {"position":…,"operation":…,"metadata":…,"key":…,"payload":{"before":…,"after":…}}. Raw data is
text, or "base64:…" for bytes that are not text. Only the payload is required. With --base64
all positions and raw data are base64, as the file destination writes them unless sdk.record.format is
opencdc/text.

With --take the records are the next ones that the source reads in the running agent. The running
pipeline processes them as usual.

Examples:
  conduit pipelines dry-run pipelines/orders.yaml --input orders.jsonl
  conduit pipelines dry-run pipelines/orders.yaml --take 10`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			path, err := Argument(flags, args, "no pipeline file given")
			if err != nil {
				return err
			}
			return runDry(ctx, p, path, at, &a)
		},
	}
}

// dryRun has the options of a dry run.
type dryRun struct {
	spec.DryRunRequest
	input, start string
	take         int
	advance      time.Duration
	json         bool
}

func runDry(ctx context.Context, p *Program, path string, at *AgentFlags, a *dryRun) (err error) {
	c, err := at.Load(p)
	if err != nil {
		return err
	}
	content, err := readFile(FileAt(c, path))
	if err != nil {
		return err
	}
	a.File, a.Advance = string(content), a.advance.String()
	if a.start != "" {
		start, err := time.Parse(time.RFC3339, a.start)
		if err != nil {
			return Invalidf("--start %q is not a time; write for example 2024-01-31T12:00:00Z", a.start)
		}
		a.Start = &start
	}
	if a.take > 0 {
		a.Base64 = false
		err = takeRecords(ctx, p, c, at.Address, a)
	} else {
		a.Records, err = readRecords(a.input)
	}
	if err != nil {
		return err
	}
	r, err := dryrun.Do(ctx, a.DryRunRequest,
		dryrun.Options{Registry: processorRegistry(ctx, p, c), Timeout: offlineTimeout},
		spec.Lookup{Kinds: p.Parts.References, Early: true})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if a.json {
		return p.WriteJSON(r)
	}
	printDryRun(p, r)
	return nil
}

// readRecords returns the non-empty lines of a file, or of standard input.
func readRecords(path string) ([]json.RawMessage, error) {
	in := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read records: %w", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	var records []json.RawMessage
	for n := 1; lines.Scan(); n++ {
		line := bytes.Clone(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return nil, Invalidf("%s: line %d: not JSON", path, n)
		}
		records = append(records, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read records: %w", err)
	}
	return records, nil
}

// printDryRun writes the result for people.
func printDryRun(p *Program, r *spec.DryRun) {
	for _, one := range r.Records {
		if one.Number > 0 {
			fmt.Fprintf(p.Stdout, "record %d\n", one.Number)
		} else {
			fmt.Fprintln(p.Stdout, "after the last record")
		}
		for _, s := range one.Steps {
			fmt.Fprintf(p.Stdout, "  %s%s\n", s.Processor, stepWords(&s))
			if len(s.Records) > 0 {
				printDiff(p, s.Diff)
			}
		}
	}
	for _, l := range r.DeadLetters {
		fmt.Fprintf(p.Stdout, "dead letter: %s: %s\n", l.Processor, l.Error)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Destinations)) {
		way := ""
		if slices.Contains(r.Isolated, id) {
			way = " through its log (isolate)"
		}
		fmt.Fprintf(p.Stdout, "%s gets %s%s\n", id, terminal.Count(len(r.Destinations[id]), "record"), way)
	}
}

func stepWords(s *spec.DryRunStep) string {
	switch {
	case len(s.Records) == 0:
		return ": no records left"
	case len(s.Diff) == 0:
		return ": unchanged"
	case len(s.Records) > 1:
		return fmt.Sprintf(": %d records", len(s.Records))
	}
	return ""
}
