package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func planCommand(p *Program) *ffcli.Command {
	flags := NewFlags("plan")
	at := NewAgentFlags(flags, "pipelines.path", "connectors.path", "processors.path", "db.sqlite.path",
		"pipelines.deletion-grace", "pipelines.cleanup-delay")
	asJSON := flags.Bool("json", false, "print JSON")
	exitCode := flags.Bool("exit-code", false,
		"exit with 0 for no changes, 2 for changes, 1 on any error")
	return &ffcli.Command{
		Name:       "plan",
		ShortUsage: "conduit pipelines plan [PATH...] [flags]",
		ShortHelp:  "Show the changes that pipeline files would make, and their effects.",
		LongHelp: `Compares pipeline files with the running agent and shows the changes that they would make, and the
problems that would keep pipelines from running. PATH is a directory to use as pipelines.path, or
files to add to it. Each change has its line and effect; values of settings are never shown.

When no agent answers, or --db.sqlite.path or a directory is given by a flag, the command reads the
store instead and shows the plan of an agent that starts now. Only the agent resolves references such
as ${VAR}. Paths of files are relative to the working directory.

The agent applies a file in its pipelines.path as soon as it is saved, so a plan of that directory is
usually empty. Plan a copy in another directory, such as a checkout, before you save it there.

  +    the pipeline is new
  ~    it changes while its sources stay open, or while it is stopped
  -/+  it restarts from its saved position, or loses it
  -    it is no longer declared

The exit code is 2 when a file has errors. With --exit-code it is 2 when something would change, 1 when a
file has errors or there is no plan, and 0 when nothing would change.

Examples:
  conduit pipelines plan
  conduit pipelines plan --exit-code ./checkout/pipelines`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			paths, err := Positional(flags, args, len(args))
			if err != nil {
				return err
			}
			plan, err := makePlan(ctx, p, at, *asJSON, paths)
			if *exitCode {
				return detailed(plan, err)
			}
			if err == nil && HasErrors(plan.Problems) {
				return ErrReported
			}
			return err
		},
	}
}

// makePlan makes a plan and prints it.
func makePlan(ctx context.Context, p *Program, at *AgentFlags, asJSON bool, paths []string) (*spec.Plan, error) {
	c, err := at.Load(p)
	if err != nil {
		return nil, err
	}
	m := &planMaker{Program: p, config: c, at: at, json: asJSON, named: map[string]string{}}
	plan, err := m.make(ctx, paths)
	switch {
	case err != nil:
		return nil, err
	case asJSON:
		return plan, p.WriteJSON(plan)
	}
	printBelow(p, "", m.below)
	return plan, m.write(plan)
}

// detailed returns the error for the exit code: 1 for every error, and 2 for changes only.
func detailed(plan *spec.Plan, err error) error {
	switch {
	case err != nil:
		return errors.New(err.Error()) // without methods that select another exit code
	case HasErrors(plan.Problems):
		return errors.New("")
	case len(plan.Pipelines) > 0:
		return ErrReported
	}
	return nil
}

func (m *planMaker) write(plan *spec.Plan) error {
	p := m.Program
	counts := map[string]int{}
	for i := range plan.Pipelines {
		one := &plan.Pipelines[i]
		symbol := planSymbol(one)
		counts[symbol]++
		place := one.File
		if one.Line > 0 {
			place = fmt.Sprintf("%s:%d", one.File, one.Line)
		}
		fmt.Fprintf(p.Stdout, "%s %s (%s): %s\n", p.Paint(symbol, symbolColors[symbol]), one.ID, place,
			planWords(one, plan))
		if err := writePlanned(p, one); err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(one.RawLane)) {
			fmt.Fprintf(p.Stdout, "    raw lane of %s: %s\n", id, one.RawLane[id])
		}
		for _, id := range slices.Sorted(maps.Keys(one.Notes)) {
			for _, note := range one.Notes[id] {
				fmt.Fprintf(p.Stdout, "    note on %s: %s\n", id, terminal.Line(note))
			}
		}
	}
	p.PrintProblems(plan.Problems)
	if len(plan.Pipelines) > 0 {
		fmt.Fprintf(p.Stdout, "%d to add, %d to change, %d to restart, %d to remove\n", counts["+"], counts["~"],
			counts["-/+"], counts["-"])
		return nil
	}
	_, err := fmt.Fprintln(p.Stdout, m.nothingWords(plan))
	return err
}

// nothingWords returns the reason why nothing would change.
func (m *planMaker) nothingWords(plan *spec.Plan) string {
	switch {
	case len(plan.Held) > 0:
		return "no changes: all pipeline files are missing, and no pipeline is withdrawn until one appears; to " +
			"confirm the removal: conduit reload --prune"
	case plan.Files == 0:
		return "no changes: there are no pipeline files"
	case HasErrors(plan.Problems):
		return "no changes: pipelines with errors keep their declaration"
	}
	words := "no changes: the files match the declared pipelines"
	if m.live {
		words += "; the agent applies a file in " + terminal.Line(cmp.Or(m.dir, "its directory")) +
			" as soon as it is saved: to see a change before that, plan a copy of the file in another directory"
	}
	return words
}

// writePlanned writes a line for each change of a pipeline that is not removed.
func writePlanned(p *Program, one *spec.PlannedPipeline) error {
	if one.Action != spec.ActionChange {
		return nil
	}
	var t terminal.Table
	for _, c := range one.Changes {
		t.Add("", "", actionSymbols[c.Action]+" "+c.Path, fmt.Sprintf("%d:%d", c.Line, c.Column), string(c.Effect))
	}
	return t.Write(p.Stdout, p.Paint)
}

var (
	actionSymbols = map[spec.Action]string{spec.ActionAdd: "+", spec.ActionRemove: "-", spec.ActionChange: "~"}
	symbolColors  = map[string]string{"+": terminal.Green, "~": terminal.Yellow, "-/+": terminal.Yellow,
		"-": terminal.Red}
	effectWords = map[spec.Effect]string{
		spec.EffectNone:               "no effect on running pipelines",
		spec.EffectInPlace:            "changes in place",
		spec.EffectRestartDestination: "restarts destinations, sources stay open",
		spec.EffectRestart:            "restarts from its saved position",
		spec.EffectPositionLost:       "restarts",
	}
)

func planSymbol(one *spec.PlannedPipeline) string {
	switch {
	case one.Action != spec.ActionChange:
		return actionSymbols[one.Action]
	case one.From == spec.StatusRunning && one.To == spec.StatusRunning &&
		one.Effect.Severity() > spec.EffectRestartDestination.Severity():
		return "-/+"
	}
	return "~"
}

// planWords describes the planned change of a pipeline.
func planWords(one *spec.PlannedPipeline, plan *spec.Plan) string {
	var words string
	switch runs := one.From == spec.StatusRunning; {
	case one.Action == spec.ActionRemove && runs:
		return fmt.Sprintf("drains and stops after %s; its positions are forgotten %s later", plan.DeletionGrace,
			plan.CleanupDelay)
	case one.Action == spec.ActionRemove:
		return fmt.Sprintf("its positions are forgotten %s after a grace of %s", plan.CleanupDelay, plan.DeletionGrace)
	case one.To == spec.StatusRunning && !runs:
		words = "starts"
	case one.To == spec.StatusStopped && runs:
		words = "drains and stops"
	case one.To == spec.StatusStopped:
		words = "stopped"
	default:
		words = effectWords[one.Effect]
	}
	if one.Effect == spec.EffectPositionLost {
		words += "; a source loses its position"
	}
	return words
}
