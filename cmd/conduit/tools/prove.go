// Package tools has the commands that only the full binary has.
package tools

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/prove"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// options are the flags.
type options struct {
	kills int
	time  time.Duration
	seed  uint64
	json  bool
}

// StandIn serves the connector that replaces external systems, and returns true, if this process was started for that.
func StandIn() bool {
	if !prove.IsStandIn() {
		return false
	}
	prove.Serve()
	return true
}

// Prove returns 'conduit prove'. The main of a binary with this command must call StandIn first.
func Prove(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("prove")
	at := cli.SettingFlags(flags, "pipelines.path", "processors.path")
	var o options
	flags.IntVar(&o.kills, "kills", 100, "number of kills of the agent")
	flags.DurationVar(&o.time, "time", 5*time.Minute, "maximum duration")
	flags.Uint64Var(&o.seed, "seed", 0, "of the faults; 0 selects a random one, which the report shows")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	return &ffcli.Command{
		Name:       "prove",
		ShortUsage: "conduit prove [PATH...] [flags]",
		ShortHelp:  "Prove on this host that pipelines lose no records under faults.",
		LongHelp: `Runs the pipelines of files and directories (default: the setting pipelines.path) in a separate
agent, in a directory below $TMPDIR. Test doubles replace all external systems: sources send numbered
records, and destinations log what they receive to disk. Meanwhile the command kills the agent at
random moments, crashes and hangs its connectors, pauses it, and edits its files. As root on Linux it
also cuts the power of the agent's disk, fills the disk, and makes the monotonic clock jump. At the end it
counts lost, repeated and reordered records.

Your state, files and systems are not touched. Processors are kept if the records of the test doubles
pass them; the report lists the others. The exit code is 0 only if all promises were kept; otherwise the
working directory is kept for inspection.

Example:
  conduit prove pipelines/orders.yaml --kills 20`,
		FlagSet: flags,
		Exec:    func(ctx context.Context, args []string) error { return runProof(ctx, p, flags, at, &o, args) },
	}
}

func runProof(
	ctx context.Context, p *cli.Program, flags *flag.FlagSet, at *cli.Settings, o *options, args []string,
) error {
	paths, err := cli.Positional(flags, args, len(args))
	if err != nil {
		return err
	}
	if o.kills < 1 || o.time < time.Minute {
		return cli.Invalidf("--kills must be at least 1, and the duration at least one minute")
	}
	for o.seed == 0 {
		o.seed = rand.Uint64()
	}
	c, err := at.Load(p)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{c.Pipelines.Path}
	}
	for i, path := range paths {
		paths[i] = cli.FileAt(c, path)
	}
	pipelines, err := read(ctx, p, paths)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := prove.Run(ctx, arguments(ctx, p, c, o, pipelines))
	if err != nil {
		if r != nil && r.AgentLog != "" {
			return fmt.Errorf("%w; the log of the agent is %s", err, r.AgentLog)
		}
		return err
	}
	if o.json {
		err = p.WriteJSON(r)
	} else {
		err = print(p, r)
	}
	if err == nil && !r.Held {
		return fmt.Errorf("a promise is broken; the log of the agent is %s", r.AgentLog)
	}
	return err
}

func arguments(
	ctx context.Context, p *cli.Program, c config.Config, o *options, pipelines []spec.Pipeline,
) prove.Options {
	own, err := os.Executable()
	if err != nil {
		own = os.Args[0]
	}
	return prove.Options{
		Pipelines: pipelines, Registry: p.Catalog(c, slog.New(slog.DiscardHandler)).KnownProcessors(ctx),
		Processors: c.Processors.Path,
		Command:    []string{own, "run"}, Env: p.Environ, Kills: o.kills, Time: o.time, Seed: o.seed,
		Progress: p.Stderr,
	}
}

// read returns the pipelines of files without errors.
func read(ctx context.Context, p *cli.Program, paths []string) (all []spec.Pipeline, err error) {
	for _, path := range paths {
		files, err := planner.FilesAt(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.Err != nil {
				return nil, fmt.Errorf("cannot read a pipeline file: %w", f.Err)
			}
			found, err := parse(p, f.Path, f.Data)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// parse returns the pipelines of a file, unless the file has errors.
func parse(p *cli.Program, path string, data []byte) (all []spec.Pipeline, err error) {
	parsed := p.Parser().File(path, data)
	for _, problem := range parsed.Problems {
		if problem.Severity == spec.SeverityError {
			p.PrintProblems(parsed.Problems)
			return nil, cli.ErrReported
		}
	}
	for i := range parsed.Pipelines {
		all = append(all, parsed.Pipelines[i].Pipeline)
	}
	return all, nil
}

// print writes the report for people.
func print(p *cli.Program, r *prove.Report) error {
	f := r.Faults
	fmt.Fprintf(p.Stdout, "%d kills, %d power cuts, %d times a full disk, %d jumps of the clock, %d pauses, %d "+
		"connectors crashed, %d hung, %d edits, %d stops; %.0f s, seed %d\n\n",
		f.Kills, f.PowerCuts, f.FullDisks, f.ClockJumps, f.Pauses, f.PluginCrashes, f.PluginHangs, f.Edits,
		f.Terminations, r.Seconds, r.Seed)
	var t terminal.Table
	t.Add("PIPELINE", "SOURCE", "DESTINATION", "RECORDS", "LOST", "REORDERED", "REPEATED", "LONGEST REPEAT")
	for _, one := range r.Flows {
		t.Add(one.Pipeline, one.Source, one.Destination, fmt.Sprint(one.Arrived), fmt.Sprint(one.Lost),
			fmt.Sprint(one.Reordered), fmt.Sprint(one.Doubled), fmt.Sprint(one.Longest))
	}
	if err := t.Write(p.Stdout, p.Paint); err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout)
	for _, n := range r.Notes {
		fmt.Fprintf(p.Stdout, "%s: %s\n", n.What, n.Why)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(p.Stdout, "not tried: %s: %s\n", s.Fault, s.Why)
	}
	for _, b := range r.Broken {
		fmt.Fprintf(p.Stdout, "BROKEN: %s\n", b)
	}
	if r.Held {
		fmt.Fprintln(p.Stdout, "All promises were kept: no record was lost or reordered, and only records "+
			"in flight at a fault were repeated.")
	}
	return nil
}
